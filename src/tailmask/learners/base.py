"""The protocol that everything trainable follows: rows in, a fitted model out, logits from it."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tailmask.data.copies import frame_keys, row_keys
from tailmask.learners.arrays import check_targets, is_sparse

__all__ = ["NEVER", "Deadline", "Features", "Fitted", "Learner", "Progress", "Rows", "silent"]

Features: TypeAlias = Any  # a polars frame, a dense array, or one of scipy's sparse arrays
Progress: TypeAlias = Callable[[float, str], None]  # the share that is done, from 0 to 1, and a few words


class Learner(Protocol):
    """Can be fitted. Its `repr` names every option that changes the result: a frozen dataclass has that.

    A learner fits its own encoder on the rows that it is given, and cuts from them whatever it steers by. So
    nothing can leak from rows that it is not given. `workdir` is a folder of its own, where a fit that was
    killed finds what it had finished.
    """

    def fit(
        self, rows: Rows, *, seed: int, workdir: Path, deadline: Deadline, progress: Progress
    ) -> Fitted: ...


class Fitted(Protocol):
    """Gives logits for raw rows. `learners.storage.load_fitted` loads what `save` wrote."""

    def logits(self, rows: Rows) -> Tensor:
        """The logits (N, C) in float32, under the data's own prevalence; rows may have no targets."""
        ...

    def save(self, folder: Path) -> None:
        """Write arrays and JSON into a new or empty folder; nothing is pickled."""
        ...


@dataclass(frozen=True, eq=False)
class Rows:
    """Raw rows: features, and where they are known their targets, groups and order in time.

    >>> rows = Rows(np.eye(3), targets=np.array([[1], [0], [-1]]), groups=np.array([7, 7, 8]))
    >>> some = rows.take(np.array([2, 0]))
    >>> len(some), some.targets.tolist(), some.groups.tolist()
    (2, [[-1], [1]], [8, 7])
    """

    features: Features  # (N, F)
    targets: npt.NDArray[np.int8] | None = None  # (N, C): 1, 0, or −1 where unknown
    groups: npt.NDArray[Any] | None = None  # (N,): rows of one group stay in one fold
    times: npt.NDArray[Any] | None = None  # (N,): folds go forward in time

    def __post_init__(self) -> None:
        if len(self.features.shape) != 2:
            raise ValueError(
                f"features must have the shape (rows, features), got {tuple(self.features.shape)}"
            )
        if self.targets is not None:
            object.__setattr__(self, "targets", check_targets(self.targets, len(self)))
        for name in ("groups", "times"):
            value = getattr(self, name)
            if value is not None and np.shape(value) != (len(self),):
                raise ValueError(f"{name} must have one value per row, so the shape ({len(self)},)")

    def __len__(self) -> int:
        return int(self.features.shape[0])

    @property
    def labelled(self) -> npt.NDArray[np.int8]:
        """The targets, refused where there are none."""
        if self.targets is None:
            raise ValueError("these rows have no targets, but a fit needs them")
        return self.targets

    def take(self, index: npt.NDArray[np.int64]) -> Rows:
        """The rows in `index`, in its order."""
        features = self.features.tocsr() if is_sparse(self.features) else self.features
        parts = {
            name: value[index]
            for name in ("targets", "groups", "times")
            if (value := getattr(self, name)) is not None
        }
        return replace(self, features=features[index], **parts)

    def digest(self) -> str:
        """A hash of features and targets. It tells whether a folder was made from the same rows.

        >>> Rows(np.eye(2)).digest() == Rows(np.eye(2)).digest() != Rows(np.ones((2, 2))).digest()
        True
        """
        names = getattr(self.features, "columns", None)  # of a frame
        if names is not None:
            keys = frame_keys(self.features, names)
        else:
            keys = row_keys(self.features.tocsr() if is_sparse(self.features) else np.asarray(self.features))
        digest = hashlib.sha256(repr((tuple(self.features.shape), names)).encode() + keys.tobytes())
        if self.targets is not None:
            digest.update(self.targets.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Deadline:
    """A moment of `time.monotonic()` by which a fit should end; never, unless it is given.

    >>> Deadline().passed, Deadline.after(0).passed, Deadline.after(100).part(0.5).left <= 50
    (False, True, True)
    """

    end: float = math.inf

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The moment so many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self.end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self.end

    @property
    def moment(self) -> float | None:
        """The time of `time.monotonic()`, or None for never."""
        return None if math.isinf(self.end) else self.end

    def part(self, share: float) -> Deadline:
        """The deadline after this share of the time that is left."""
        return self if math.isinf(self.end) else Deadline.after(self.left * share)


NEVER = Deadline()


def silent(share: float, text: str) -> None:
    """A progress that nobody sees.

    >>> silent(0.5, "fold 3 of 5")
    """
