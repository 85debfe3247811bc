"""One session of a run, from its start or its last checkpoint; the input of both training engines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tailmask.runs.config import RunConfig
from tailmask.training.progress import Progress
from tailmask.training.run_parts import Parts

__all__ = ["Session"]


@dataclass(frozen=True)
class Session:
    """The folder, configuration, parts and progress display of a run.

    `lines` are the history of the finished epochs.
    """

    folder: Path
    config: RunConfig
    parts: Parts
    lines: list[str]
    progress: Progress | None = None
    tensorboard: bool = False
