"""The protocol that everything trainable follows: rows in, a fitted model out, logits from it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from torch import Tensor

from tailmask.data.rows import Rows

__all__ = ["NEVER", "Deadline", "FitProgress", "Fitted", "Learner", "silent"]

FitProgress: TypeAlias = Callable[[float, str], None]  # the finished share, from 0 to 1, and a few words


class Learner(Protocol):
    """Something that can be fitted. Its `repr`, as of a frozen dataclass, names all options with an effect.

    A learner fits its own encoder on the given rows. If training needs held-out rows, it takes some of these
    rows. So nothing can leak from other rows. `workdir` is its own folder; an interrupted fit is resumed from
    there.
    """

    def fit(
        self, rows: Rows, *, seed: int, workdir: Path, deadline: Deadline, progress: FitProgress
    ) -> Fitted: ...


class Fitted(Protocol):
    """A model that gives logits for raw rows. `stored_models.load_fitted` loads what `save` wrote."""

    def logits(self, rows: Rows) -> Tensor:
        """The logits (N, C) in float32, for the prevalence of the data; rows may have no targets."""
        ...

    def save(self, folder: Path) -> None:
        """Write arrays and JSON into a new or empty folder; nothing is pickled."""
        ...


@dataclass(frozen=True)
class Deadline:
    """A moment of `time.monotonic()` by which a fit should end; by default never.

    >>> Deadline().passed, Deadline.after(0).passed, Deadline.after(100).part(0.5).left <= 50
    (False, True, True)
    """

    end: float = math.inf

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The deadline this many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self.end - time.monotonic())

    @property
    def passed(self) -> bool:
        """True if no time is left."""
        return time.monotonic() >= self.end

    def part(self, share: float) -> Deadline:
        """The deadline after this share of the time that is left."""
        return self if self == NEVER else Deadline.after(self.left * share)


NEVER = Deadline()


def silent(share: float, text: str) -> None:
    """Ignore progress.

    >>> silent(0.5, "fold 3 of 5")
    """
