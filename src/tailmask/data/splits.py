"""Splits that keep the share of every label, for data without official splits.

Up to 100,000 rows and ten million labels this is the iterative stratification of Sechidis et al. (2011).
Larger data would take it minutes. Their rows are sorted by their rarest label, and the rows of each label
are distributed evenly. Rows of one group, such as copies of a row, stay together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError, require
from tailmask.data.public.portable_draws import Draws
from tailmask.data.readers.table.label_columns import labels_from_pairs

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["by_rarest_label", "fold_numbers", "latest", "stratified"]

ITERATIVE_ROWS, ITERATIVE_LABELS = 10**5, 10**7

# If a split divides groups with at most this share of the rows, moving them changes less than a new split.
FEW_DIVIDED = 0.01


def stratified(
    targets: Tensor | csr_array, share: float, seed: int, *, groups: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to keep and rows to hold out, about `share` of them. Both have the same share of every label.

    Rows with the same number in `groups` stay together. If a split of the rows divides only a few groups,
    these groups are kept as a whole, and all other rows are split as without groups. Otherwise whole
    groups are split, and a group has all labels of its rows.

    >>> import torch
    >>> kept, held_out = stratified(torch.eye(2, dtype=torch.int8).repeat(10, 1), 0.2, seed=0)
    >>> len(kept), len(held_out), np.bincount(held_out % 2).tolist()
    (16, 4, [2, 2])
    >>> targets = torch.eye(2, dtype=torch.int8).repeat(10, 1)
    >>> kept, held_out = stratified(targets, 0.5, seed=0, groups=np.arange(20) // 4)
    >>> set(kept // 4) & set(held_out // 4)
    set()
    """
    if not 0 < share < 1:
        raise UserError(f"the share of a split must be between 0 and 1, got {share:g}")
    number = targets.shape[0]
    if number < 2:
        raise UserError(f"fewer than 2 samples cannot be split, got {number}: add rows")
    held_out = _held_out(targets, share, seed)
    units = "samples"
    if groups is not None:
        _, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        taken = np.bincount(member[held_out], minlength=len(sizes))
        divided = ((taken > 0) & (taken < sizes))[member]
        if divided.mean() <= FEW_DIVIDED:
            held_out &= ~divided
        else:
            units, number = "groups of samples", len(sizes)
            held_out = _held_out(_group_targets(targets, member, sizes), share, seed)[member]
    if not held_out.any() or held_out.all():
        raise UserError(
            f"{number} {units} are too few to hold out a share of {share:g}: name a file, or hold out none"
        )
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def latest(
    times: NDArray[np.float64], share: float, *, groups: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to keep and rows to hold out. The latest rows are held out, about `share` of all.

    Rows of the same time stay on one side. Earlier rows of a group that is held out are in neither.

    >>> latest(np.array([3.0, 1.0, 2.0, 3.0]), 0.25)
    (array([1, 2]), array([0, 3]))
    >>> latest(np.array([1.0, 2.0, 3.0]), 0.3, groups=np.array([7, 8, 7]))
    (array([1]), array([2]))
    """
    moments, counts = np.unique(times, return_counts=True)
    if len(moments) < 2:
        raise UserError("all rows have the same time: split them without --time")
    later = len(times) - np.cumsum(counts)[:-1]  # rows after each time except the last
    held_out = times > moments[np.argmin(np.abs(later - share * len(times)))]
    kept = ~held_out if groups is None else ~held_out & ~np.isin(groups, groups[held_out])
    if not kept.any():
        raise UserError(
            "each group has rows among the latest ones, so none is left for training: leave out --group or "
            "--time"
        )
    return np.flatnonzero(kept), np.flatnonzero(held_out)


def fold_numbers(
    targets: Tensor | csr_array, folds: int, seed: int, *, groups: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The fold of each row, from 0 to folds − 1. All folds have about the same share of every label.

    Rows with the same number in `groups` get the same fold. For stratification, a group has all labels of
    its rows. No fold is empty.

    >>> import torch
    >>> numbers = fold_numbers(torch.eye(2, dtype=torch.int8).repeat(10, 1), 5, seed=0)
    >>> np.bincount(numbers[::2]).tolist(), np.bincount(numbers[1::2]).tolist()
    ([2, 2, 2, 2, 2], [2, 2, 2, 2, 2])
    """
    if folds < 2:
        raise UserError(f"at least 2 folds are needed, got {folds}")
    if groups is not None:
        _, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        if len(sizes) < len(member):
            return fold_numbers(_group_targets(targets, member, sizes), folds, seed)[member]
    number = targets.shape[0]
    if number < folds:
        raise UserError(f"{number} samples or groups are too few for {folds} folds: ask for fewer folds")
    if isinstance(targets, Tensor) and _is_small(targets):
        numbers = _iterative((targets == 1).numpy(), np.full(folds, 1 / folds), seed)
        if len(np.unique(numbers)) == folds:
            return numbers
    dealt = np.empty(number, dtype=np.int64)
    dealt[_rarest_first(targets, seed)] = np.arange(number) % folds
    return dealt


def _is_small(targets: Tensor) -> bool:
    return len(targets) <= ITERATIVE_ROWS and targets.numel() <= ITERATIVE_LABELS


def _held_out(targets: Tensor | csr_array, share: float, seed: int) -> NDArray[np.bool_]:
    if isinstance(targets, Tensor) and _is_small(targets):
        held_out: NDArray[np.bool_] = (
            _iterative((targets == 1).numpy(), np.array([1 - share, share]), seed) == 1
        )
        return held_out
    return by_rarest_label(targets, share, seed)


def _group_targets(
    targets: Tensor | csr_array, member: NDArray[np.int64], sizes: NDArray[np.int64]
) -> Tensor | csr_array:
    """The labels of each group: those of its rows, and its size, rounded down to a power of 2.

    Stratification then also distributes the sizes evenly, and each part gets its share of the rows.
    """
    rows, columns = _positives(targets)
    powers = np.frexp(sizes)[1].astype(np.int64) - 2  # −1 for one row, 0 for 2 or 3, 1 for 4 to 7, …
    large = np.flatnonzero(powers >= 0)
    num_classes = targets.shape[1]
    return labels_from_pairs(
        np.concatenate([member[rows], large]),
        np.concatenate([columns, num_classes + powers[large]]),
        (len(sizes), num_classes + int(powers.max()) + 1),
    )


def by_rarest_label(targets: Tensor | csr_array, share: float, seed: int) -> NDArray[np.bool_]:
    """True for rows to hold out. Rows with the same rarest label are distributed evenly, in random order."""
    number = targets.shape[0]
    taken = np.floor(np.arange(1, number + 1) * share + 0.5) > np.floor(np.arange(number) * share + 0.5)
    held_out = np.zeros(number, dtype=np.bool_)
    held_out[_rarest_first(targets, seed)[taken]] = True
    return held_out


def _rarest_first(targets: Tensor | csr_array, seed: int) -> NDArray[np.int64]:
    """The rows sorted by their rarest label, in random order for each label."""
    rows, columns = _positives(targets)
    number, num_classes = targets.shape
    counts = np.bincount(columns, minlength=num_classes)
    rarity = np.argsort(np.argsort(counts, kind="stable"), kind="stable")  # 0 for the rarest class
    rarest = np.full(number, num_classes, dtype=np.int64)  # rows without a label come last
    np.minimum.at(rarest, rows, rarity[columns])
    shuffled = Draws(seed).permutation(number)
    return shuffled[np.argsort(rarest[shuffled], kind="stable")]


def _positives(targets: Tensor | csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if isinstance(targets, Tensor):
        rows, columns = (targets == 1).nonzero(as_tuple=True)
        return rows.numpy(), columns.numpy()
    coordinates = targets.tocoo()
    return coordinates.row.astype(np.int64), coordinates.col.astype(np.int64)


def _iterative(labels: NDArray[np.bool_], shares: NDArray[np.float64], seed: int) -> NDArray[np.int64]:
    """The part of each row. The rows are shuffled first: the library prefers the first rows it gets."""
    stratifiers = require("iterstrat.ml_stratifiers", extra="cli")
    order = Draws(seed).permutation(len(labels))
    state = np.random.RandomState(seed % 2**32)  # the library needs it; its stream never changes
    parts = np.empty(len(labels), dtype=np.int64)
    parts[order] = stratifiers.IterativeStratification(labels=labels[order], r=shares, random_state=state)
    return parts
