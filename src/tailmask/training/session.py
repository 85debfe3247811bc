"""One session of a run, from its start or its last checkpoint; the input of both training engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailmask.runs.config import RunConfig
from tailmask.training.progress import Progress
from tailmask.training.run_parts import Parts

__all__ = ["Session"]


@dataclass(frozen=True)
class Session:
    """The folder, configuration, parts, progress display and logger of a run.

    `lines` are the history of the finished epochs. `log` takes the record of an epoch.
    """

    folder: Path
    config: RunConfig
    parts: Parts
    lines: list[str]
    progress: Progress
    log: Callable[[Mapping[str, Any]], None] | None = None

    def report(self, record: Mapping[str, Any]) -> None:
        """Show and log a finished epoch."""
        if self.log is not None:
            self.log(record)
        self.progress.record(record)
