"""One go at a run, from its start or from its last checkpoint, as both training engines get it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tailmask.runs.config import RunConfig
from tailmask.training.progress import Progress
from tailmask.training.run_parts import Parts

__all__ = ["Session"]


@dataclass(frozen=True)
class Session:
    """Where a run is written, what it trains, and who hears of its progress.

    `lines` are the history of the epochs that are done.
    """

    folder: Path
    config: RunConfig
    parts: Parts
    lines: list[str]
    progress: Progress | None = None
    tensorboard: bool = False
