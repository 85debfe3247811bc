"""Progress of a run: the base of displays, and the reports of steps to them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Progress", "StepReports"]


class Progress:
    """The base of displays of a run's progress; it shows nothing. Only the first process calls it."""

    def note(self, text: str) -> None:
        """Show a note, such as the epoch that a run resumes after."""

    def begin(self, *, done: int, total: int) -> None:
        """Training begins, with `done` of `total` epochs behind it."""

    def step(self, *, epoch: int, share: float, loss: float | None, num_samples: int) -> None:
        """A share of the epoch (counted from 1) is done; called a few times per second at most.

        Without a loss, `epoch` counts folds.
        """

    def record(self, record: Mapping[str, Any]) -> None:
        """An epoch is done and on disk; `record` is its line of the history."""

    def end(self) -> None:
        """Training has ended or was interrupted."""


class StepReports:
    """Reports steps to a `Progress`, at most ten times per second: reading a loss waits for the device."""

    SECONDS_BETWEEN_STEPS = 0.1

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.last = 0.0
        self.num_samples = 0

    def add(self, loss: Tensor | float, *, epoch: int, share: float, num_samples: int) -> None:
        """A step is done: `share` of the epoch (counted from 1), with this loss over `num_samples` rows."""
        self.num_samples += num_samples
        now = time.monotonic()
        if now - self.last < self.SECONDS_BETWEEN_STEPS:
            return
        self.progress.step(epoch=epoch, share=share, loss=float(loss), num_samples=self.num_samples)
        self.last, self.num_samples = now, 0
