"""A time limit for training one network: training stops once it would clearly not finish in time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tailmask._util.messages import UserError
from tailmask.learners.protocol import Deadline
from tailmask.training.progress import Progress

__all__ = ["OutOfTimeError", "TimeLimit", "check_time"]

# An estimate needs this many seconds of training, because the first steps are slower than the others.
TRIAL_SECONDS = 5.0


class OutOfTimeError(UserError):
    """A fit would not end before the deadline."""


def check_time(needed: float, deadline: Deadline) -> None:
    """Raise `OutOfTimeError` if a fit needs more seconds than are left.

    >>> check_time(10, Deadline.after(60))
    """
    if deadline.passed and not needed:
        raise OutOfTimeError("no time was left")
    if deadline.passed or needed > deadline.left:
        raise OutOfTimeError(f"it would take about {needed:.0f} s, and {deadline.left:.0f} s are left")


class TimeLimit(Progress):
    """Passes a run's progress on, and raises `OutOfTimeError` if the rest would take too long.

    The run keeps its checkpoint, so a later call with more time resumes it.
    """

    def __init__(self, progress: Progress, deadline: Deadline) -> None:
        self.progress, self.deadline = progress, deadline
        self._began, self._first, self._total = time.monotonic(), 0.0, 1

    def note(self, text: str) -> None:
        """Pass a note on."""
        self.progress.note(text)

    def begin(self, *, done: int, total: int) -> None:
        """Start the clock."""
        self._began, self._first, self._total = time.monotonic(), float(done), total
        self.progress.begin(done=done, total=total)

    def step(self, *, epoch: int, share: float, loss: float | None, num_samples: int) -> None:
        """Compare the expected end with the deadline."""
        self.progress.step(epoch=epoch, share=share, loss=loss, num_samples=num_samples)
        self._check(epoch - 1 + share)

    def record(self, record: Mapping[str, Any]) -> None:
        """Compare the expected end with the deadline, after a whole epoch."""
        self.progress.record(record)
        self._check(float(record["epoch"]))

    def end(self) -> None:
        """Pass the end on."""
        self.progress.end()

    def _check(self, done: float) -> None:
        spent = time.monotonic() - self._began
        if done < self._total and done > self._first and (spent > TRIAL_SECONDS or self.deadline.passed):
            check_time(spent / (done - self._first) * (self._total - done), self.deadline)
