"""Features that predict a label almost perfectly by themselves: often copies of it, or consequences of it.

A feature gives a label away if one rule on only this feature (a threshold, or a set of values) finds the
rarer side of the label with an F1 of 98 % or more in the training rows. Other features rarely reach this.
For empty cells 90 % is enough: they often say that something has not happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import listing, require

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["FeatureSample", "give_away_notes", "sampled"]

F1, F1_OF_EMPTY = 0.98, 0.9

# With fewer rows on the rarer side of a label, a feature may predict it by chance.
LEAST_POSITIVES = 20

LEAST_ROWS, MAX_ROWS, MAX_NUMBERS = 2_000, 20_000, 2 * 10**7
MAX_FEATURES, MAX_LABELS = 10_000, 1_000

# A feature with at most this many different numbers is treated as a category, such as a code.
FEW_VALUES = 20

# A quick test before all thresholds are tried: this many pairs of rows, one from each side, are drawn. The
# shares of pairs in either order must differ by this much. With 2 % errors they differ by 96 %.
DRAWN, IN_ORDER = 100, 0.8

MOST_NOTES = 5


@dataclass(frozen=True)
class FeatureSample:
    """Features of some rows: numbers (N, F), NaN for missing values, or CSR.

    The features in `categories` are codes without an order.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64] | csr_array
    categories: frozenset[int] = frozenset()


def sampled(index: NDArray[np.int64], num_features: int) -> NDArray[np.int64]:
    """A sample of the rows in `index`, small enough to check all features in a second or two.

    >>> len(sampled(np.arange(10**6), 10)), len(sampled(np.arange(500), 10))
    (20000, 500)
    """
    number = min(MAX_ROWS, max(LEAST_ROWS, MAX_NUMBERS // max(num_features, 1)))
    if len(index) <= number:
        return index
    return np.sort(np.random.default_rng(0).choice(index, number, replace=False))


def give_away_notes(
    features: FeatureSample, targets: Tensor | csr_array, classes: Sequence[str]
) -> Iterator[str]:
    """A sentence for each feature that predicts a label by itself, or one sentence if there are many.

    >>> import torch
    >>> label = np.arange(60) % 3 == 0
    >>> features = FeatureSample(("flag", "other"), np.stack([label * 5.0, np.arange(60.0)], axis=1))
    >>> targets = torch.from_numpy(label[:, None].astype(np.int8))
    >>> [note.partition(":")[0] for note in give_away_notes(features, targets, ["churn"])]
    ["'flag' by itself predicts churn almost perfectly"]
    """
    found = give_aways(features, targets)
    advice = "if it is not known before the label, leave it out"
    if len(found) > MOST_NOTES:
        names = listing([features.names[feature] for feature in found])
        labels = listing([classes[c] for c in sorted({c for told in found.values() for c in told})])
        told_by = f"each of {len(found)} features ({names}) by itself predicts a label ({labels})"
        yield f"{told_by} almost perfectly: {advice}"
        return
    for feature, told in found.items():
        labels = listing([classes[c] for c in told])
        yield f"{features.names[feature]!r} by itself predicts {labels} almost perfectly: {advice}"


def give_aways(features: FeatureSample, targets: Tensor | csr_array) -> dict[int, list[int]]:
    """The features (by number) that predict a label by themselves, each with the classes that it predicts."""
    if not isinstance(targets, Tensor) or targets.shape[1] > MAX_LABELS:
        return {}
    labels = targets.numpy()
    sides = np.stack([(labels == 0).sum(axis=0), (labels == 1).sum(axis=0)])
    usable = np.flatnonzero(sides.min(axis=0) >= LEAST_POSITIVES)
    if not len(usable):
        return {}
    # (N, labels): true on the rarer side of each label; true if the label is known
    rare, known = labels[:, usable] == (sides[1] <= sides[0])[usable], labels[:, usable] >= 0
    if isinstance(features.values, np.ndarray):
        pairs = _of_numbers(features, rare, known)
    else:
        pairs = _of_sparse(features.values, rare, known)
    found: dict[int, list[int]] = {}
    for feature, label in sorted(set(pairs)):
        found.setdefault(feature, []).append(int(usable[label]))
    return found


def _of_sparse(
    values: csr_array, rare: NDArray[np.bool_], known: NDArray[np.bool_]
) -> Iterator[tuple[int, int]]:
    """Pairs of a feature and a label that are present in the same rows."""
    sparse = require("scipy.sparse", extra="cli")
    present = sparse.csr_array(
        (np.ones(len(values.data), dtype=np.float32), values.indices, values.indptr), shape=values.shape
    )
    present.data[values.data == 0] = 0
    hits = sparse.coo_array(sparse.csr_array(rare.astype(np.float32).T) @ present)
    totals = rare.sum(axis=0)
    likely = 2 * hits.data >= F1 * totals[hits.row]  # the predictions are counted only for these
    for label, feature, hit in zip(hits.row[likely], hits.col[likely], hits.data[likely], strict=True):
        predicted = (present[:, [feature]].toarray()[:, 0] > 0)[known[:, label]].sum()
        if 2 * hit >= F1 * (predicted + totals[label]):
            yield int(feature), int(label)


def _of_numbers(
    features: FeatureSample, rare: NDArray[np.bool_], known: NDArray[np.bool_]
) -> Iterator[tuple[int, int]]:
    values: Any = features.values
    if values.shape[1] > MAX_FEATURES:
        return
    missing = np.isnan(values)
    values = np.where(missing, np.inf, values)  # a missing value may predict a label, too
    few, places = [], (_Places(rare), _Places(~known))
    for feature in range(values.shape[1]):
        column = values[:, feature]
        if feature in features.categories or len(np.unique(column[: 10 * FEW_VALUES])) <= FEW_VALUES:
            different, codes = np.unique(column, return_inverse=True)
            if feature in features.categories or len(different) <= FEW_VALUES:
                few.append(feature)
                yield from ((feature, label) for label in _by_value(codes, *places))
    for feature in np.flatnonzero(missing.any(axis=0)).tolist():
        codes = missing[:, feature].astype(np.intp)
        yield from ((feature, label) for label in _by_value(codes, *places, least=F1_OF_EMPTY))
    ordered = np.setdiff1d(np.arange(values.shape[1]), few)
    yield from _of_ordered(values, ordered, rare, known)
    # A missing value may be on either side of a threshold.
    yield from _of_ordered(
        np.where(missing, -np.inf, values), ordered[missing[:, ordered].any(axis=0)], rare, known
    )


def _of_ordered(
    values: NDArray[np.float64], ordered: NDArray[np.int64], rare: NDArray[np.bool_], known: NDArray[np.bool_]
) -> Iterator[tuple[int, int]]:
    """Pairs of a feature in `ordered` and a label that a threshold on it predicts."""
    rng = np.random.default_rng(0)
    for label in range(rare.shape[1] if len(ordered) else 0):
        sides = (known[:, label] & rare[:, label], known[:, label] & ~rare[:, label])
        one, other = (values[np.ix_(rng.choice(np.flatnonzero(side), DRAWN), ordered)] for side in sides)
        order = abs((one > other).mean(axis=0) - (one < other).mean(axis=0))
        for feature in ordered[order >= IN_ORDER]:
            rows = known[:, label]
            if _by_threshold(values[rows, feature], rare[rows, label]):
                yield int(feature), label


def _by_value(codes: NDArray[np.intp], rare: _Places, unknown: _Places, *, least: float = F1) -> list[int]:
    """The labels that a set of values predicts. Values of a single row are ignored."""
    hits = rare.counts(codes)
    all_known = np.bincount(codes)[:, None] - unknown.counts(codes)
    chosen = (2 * hits > all_known) & (hits > 1)
    found, predicted = (hits * chosen).sum(axis=0), (all_known * chosen).sum(axis=0)
    return [int(label) for label in np.flatnonzero(2 * found >= least * (predicted + hits.sum(axis=0)))]


class _Places:
    """The true entries of a matrix (N, C), found once for all features."""

    def __init__(self, matrix: NDArray[np.bool_]) -> None:
        self.width = matrix.shape[1]
        self.rows, self.columns = matrix.nonzero()

    def counts(self, codes: NDArray[np.intp]) -> NDArray[np.int64]:
        """The number of true entries in the rows of each code, (number of codes, C)."""
        number = int(codes.max()) + 1
        places = codes[self.rows] * self.width + self.columns
        return np.bincount(places, minlength=number * self.width).reshape(number, self.width)


def _by_threshold(numbers: NDArray[np.float64], rare: NDArray[np.bool_]) -> bool:
    """True if a threshold, from above or from below, predicts the label.

    >>> _by_threshold(np.array([1.0, 2, 3, 4]), np.array([False, False, True, True]))
    True
    """
    for signed in (numbers, -numbers):
        order = np.argsort(signed)
        hits, predicted = np.cumsum(rare[order]), np.arange(1, len(order) + 1)
        ends = np.append(
            signed[order][1:] != signed[order][:-1], True
        )  # rows with the same number are on the same side of a threshold
        if (2 * hits >= F1 * (predicted + hits[-1]))[ends].any():
            return True
    return False
