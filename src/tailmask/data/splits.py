"""Splits that keep the share of every label, for data that come without them.

Up to 100,000 rows and ten million labels this is the iterative stratification of Sechidis et al. (2011).
Above, where that takes minutes, rows are grouped by the rarest of their labels, and each group is dealt out
evenly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tailmask.data.draws import Draws
from tailmask.errors import UserError, require

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["by_rarest_label", "stratified"]

ITERATIVE_ROWS, ITERATIVE_LABELS = 10**5, 10**7


def stratified(
    targets: Tensor | csr_array, share: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to keep and rows to hold out, about `share` of them, with the shares of all labels kept.

    >>> import torch
    >>> kept, held_out = stratified(torch.eye(2, dtype=torch.int8).repeat(10, 1), 0.2, seed=0)
    >>> len(kept), len(held_out), np.bincount(held_out % 2).tolist()
    (16, 4, [2, 2])
    """
    if not 0 < share < 1:
        raise UserError(f"the share of a split must be between 0 and 1, got {share:g}")
    number, num_classes = targets.shape
    if number < 2:
        raise UserError(f"{number} samples cannot be split")
    few = number <= ITERATIVE_ROWS and number * num_classes <= ITERATIVE_LABELS
    if isinstance(targets, Tensor) and few:
        held_out = _iterative((targets == 1).numpy(), share, seed)
    else:
        held_out = by_rarest_label(targets, share, seed)
    if not held_out.any() or held_out.all():
        raise UserError(
            f"{number} samples are too few to hold out a share of {share:g}: name a file, or take none"
        )
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def by_rarest_label(targets: Tensor | csr_array, share: float, seed: int) -> NDArray[np.bool_]:
    """Which rows to hold out, when the rows of each rarest label are dealt out evenly, in random order."""
    rows, columns = _positives(targets)
    number, num_classes = targets.shape
    counts = np.bincount(columns, minlength=num_classes)
    rarity = np.argsort(np.argsort(counts, kind="stable"), kind="stable")  # 0 for the rarest class
    group = np.full(number, num_classes, dtype=np.int64)  # rows without a label come last
    np.minimum.at(group, rows, rarity[columns])
    shuffled = Draws(seed).permutation(number)
    order = shuffled[np.argsort(group[shuffled], kind="stable")]
    taken = np.floor(np.arange(1, number + 1) * share + 0.5) > np.floor(np.arange(number) * share + 0.5)
    held_out = np.zeros(number, dtype=np.bool_)
    held_out[order[taken]] = True
    return held_out


def _positives(targets: Tensor | csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if isinstance(targets, Tensor):
        rows, columns = (targets == 1).nonzero(as_tuple=True)
        return rows.numpy(), columns.numpy()
    coordinates = targets.tocoo()
    return coordinates.row.astype(np.int64), coordinates.col.astype(np.int64)


def _iterative(labels: NDArray[np.bool_], share: float, seed: int) -> NDArray[np.bool_]:
    """Which rows to hold out. The library keeps the first rows it meets, so it meets them in random order."""
    stratifiers = require("iterstrat.ml_stratifiers", extra="cli")
    order = Draws(seed).permutation(len(labels))
    state = np.random.RandomState(seed)  # the library wants it, and its stream is frozen
    folds = stratifiers.IterativeStratification(
        labels=labels[order], r=np.array([1 - share, share]), random_state=state
    )
    held_out = np.zeros(len(labels), dtype=np.bool_)
    held_out[order] = folds == 1
    return held_out
