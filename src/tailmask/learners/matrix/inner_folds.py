"""Rows that a fit holds out of its own rows, to guide training."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from tailmask.data.splits import fold_numbers
from tailmask.learners.matrices import Array

__all__ = ["inner_cuts"]

# With more rows than this, only one inner fold is held out; otherwise each in turn.
_FOLDS, _FEW_ROWS = 4, 3000


def inner_cuts(targets: Array, *, seed: int) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Kept and held-out rows inside a fit, stratified over all labels; empty if there are too few rows.

    >>> [len(held) for _, held in inner_cuts(np.tile(np.eye(2, dtype=np.int8), (8, 1)), seed=0)]
    [4, 4, 4, 4]
    """
    if len(targets) < 2 * _FOLDS:
        return []
    number = fold_numbers(torch.from_numpy(targets), _FOLDS, seed)
    used = _FOLDS if len(targets) <= _FEW_ROWS else 1
    return [(np.flatnonzero(number != fold), np.flatnonzero(number == fold)) for fold in range(used)]
