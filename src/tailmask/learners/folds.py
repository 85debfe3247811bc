"""Folds for cross-fitting: stratified over all labels, with groups kept together, or forward in time."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from tailmask._util.messages import UserError
from tailmask.data.rows import Rows
from tailmask.data.splits import fold_numbers

__all__ = ["Folds", "make_folds"]


@dataclass(frozen=True, eq=False)
class Folds:
    """The fold in which each row is held out; see `make_folds`."""

    number: npt.NDArray[np.int64]  # (N,): from 0 to count − 1; −1 for rows that are only trained on
    count: int
    forward: bool = False  # True if a fold trains on earlier rows only
    groups: npt.NDArray[np.int64] | None = None  # (N,), if the rows have groups

    @property
    def covered(self) -> npt.NDArray[np.int64]:
        """The rows that some fold holds out."""
        return np.flatnonzero(self.number >= 0)

    def held_out(self, fold: int) -> npt.NDArray[np.int64]:
        """The rows of one fold."""
        return np.flatnonzero(self.number == fold)

    def train(self, fold: int) -> npt.NDArray[np.int64]:
        """The rows that the model of one fold is fitted on."""
        if not self.forward:
            return np.flatnonzero(self.number != fold)
        rows = self.number < fold
        if self.groups is not None:
            rows &= ~np.isin(self.groups, self.groups[self.number == fold])
        return np.flatnonzero(rows)

    def rare_classes(self, targets: npt.NDArray[np.int8]) -> tuple[int, ...]:
        """The classes with fewer held-out positives than folds.

        Some fold has no positive of such a class, so its threshold and its score are mostly chance.
        """
        positives = (targets[self.covered] == 1).sum(0)
        return tuple(np.flatnonzero(positives < self.count).tolist())

    def fewest_positives(self, targets: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
        """The smallest number of held-out positives of each class in any fold: (C,)."""
        counts = [(targets[self.held_out(fold)] == 1).sum(0) for fold in range(self.count)]
        fewest: npt.NDArray[np.int64] = np.min(counts, axis=0)
        return fewest

    def digest(self) -> str:
        """A hash of the folds, to check if two sets of folds are equal."""
        digest = hashlib.sha256(repr((self.count, self.forward)).encode())
        for each in (self.number, self.groups):
            digest.update(b"" if each is None else each.astype(np.int64).tobytes())
        return digest.hexdigest()


def make_folds(rows: Rows, count: int, *, seed: int) -> Folds:
    """Cut labelled rows into `count` folds, the same ones for the same seed.

    The folds keep the shares of all labels (iterative stratification). Rows of one group are in one fold.

    If the rows have times, they are cut into count + 1 stretches of time instead, of about the same size.
    Fold k holds out stretch k + 1 and trains on all earlier ones, so the first stretch is only trained
    on. Rows of the same time are in one stretch. A fold does not train on the groups that it holds out.

    >>> targets = np.tile(np.eye(2, dtype=np.int8), (6, 1))
    >>> folds = make_folds(Rows(np.zeros((12, 1)), targets), 3, seed=0)
    >>> [targets[folds.held_out(fold)].sum(0).tolist() for fold in range(3)], folds.rare_classes(targets)
    ([[2, 2], [2, 2], [2, 2]], ())
    >>> forward = make_folds(Rows(np.zeros((12, 1)), targets, times=np.arange(12)), 3, seed=0)
    >>> forward.train(0).tolist(), forward.held_out(0).tolist()
    ([0, 1, 2], [3, 4, 5])
    """
    targets = rows.labelled
    groups = None if rows.groups is None else np.unique(rows.groups, return_inverse=True)[1]
    if rows.times is not None:
        number = _stretches(rows.times, count + 1) - 1
    else:
        number = fold_numbers(torch.from_numpy(targets), count, seed, groups=groups)
    folds = Folds(number, count, forward=rows.times is not None, groups=groups)
    for fold in range(count):
        if not len(folds.train(fold)):
            raise UserError("a fold has no rows to train on: use fewer folds, or leave out the groups")
    return folds


def _stretches(times: npt.NDArray[np.generic], count: int) -> npt.NDArray[np.int64]:
    """The stretch of time of each row, from 0 on; all stretches have rows."""
    if times.dtype.kind == "f" and np.isnan(times.astype(np.float64)).any():
        raise UserError("some rows have no time: leave them out, or make folds without times")
    distinct, moment, sizes = np.unique(times, return_inverse=True, return_counts=True)
    if len(distinct) < count:
        raise UserError(
            f"{len(distinct)} different times are too few for {count - 1} folds that go forward in time: ask "
            "for fewer folds"
        )
    middle = np.cumsum(sizes) - sizes / 2
    stretch = np.minimum((middle * count / len(times)).astype(np.int64), count - 1)
    # If many rows share a time, a stretch can be empty. Then the distinct times are split evenly instead.
    if len(np.unique(stretch)) < count:
        stretch = np.arange(len(distinct)) * count // len(distinct)
    stretches: npt.NDArray[np.int64] = stretch[moment]
    return stretches
