"""Expected scores of decisions on new data, estimated on the validation data that fit their thresholds.

A threshold looks better on the rows that it was fitted on than on others. So the rows are divided into folds,
and the thresholds for each fold are fitted on the other folds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tailmask.calibration.decision_rules import DecisionRule
from tailmask.calibration.thresholds import BOUND, SHRINKAGE, check_labels, logit

__all__ = ["ExpectedScores", "cross_fitted_labels", "expected_scores"]

# A resampled class chooses among these cuts: scores of its positives, and quantiles of all its scores.
MOST_POSITIVE_CUTS, QUANTILE_CUTS = 32, 16


@dataclass(frozen=True, eq=False)
class ExpectedScores:
    """Expected scores of decisions on new data, by class; see `expected_scores`."""

    positives: Tensor  # (C,) int64: known positives
    scores: dict[str, Tensor]  # "precision", "recall", "f1": (C,) float64
    low: dict[str, Tensor]  # lower ends of 95 % intervals (C,), NaN if none was computed
    high: dict[str, Tensor]  # upper ends


def cross_fitted_labels(
    rule: DecisionRule, probabilities: Tensor, targets: Tensor, folds: ArrayLike
) -> Tensor:
    """The predicted labels (N, C), for each fold with thresholds fitted on the other folds.

    `folds` (N,) numbers the fold of each row.

    >>> probabilities = torch.tensor([[0.9], [0.2], [0.7], [0.1]])
    >>> targets = torch.tensor([[1], [0], [1], [0]])
    >>> cross_fitted_labels(DecisionRule(), probabilities, targets, [0, 0, 1, 1]).flatten()
    tensor([ True, False,  True, False])
    """
    if rule.top is not None:
        return rule.labels(probabilities, None)
    numbers = np.asarray(folds)
    labels = torch.zeros(probabilities.shape, dtype=torch.bool)
    for number in np.unique(numbers):
        rows = torch.from_numpy(numbers == number)
        thresholds = rule.fit(probabilities[~rows], targets[~rows])
        labels[rows] = rule.labels(probabilities[rows], thresholds)
    return labels


def expected_scores(
    rule: DecisionRule,
    probabilities: Tensor,
    targets: Tensor,
    folds: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    fewest: int = 5,
    resamples: int = 200,
    seed: int = 0,
) -> ExpectedScores:
    """Precision, recall and F1 of cross-fitted decisions for each class, with 95 % intervals.

    The intervals include the chance in the choice of the threshold: each class's rows are resampled (the
    Poisson bootstrap), and thresholds are fitted and scored again on each resample, fold by fold. The shared
    threshold is not fitted again. Rows with the same number in `groups` (N,) are drawn together; give them
    one fold. Classes with fewer positives than `fewest` get no interval, because it would be too narrow.

    >>> targets = (torch.arange(200) % 4 == 0).int()[:, None]
    >>> probabilities = torch.where(targets == 1, 0.8, 0.2)
    >>> found = expected_scores(DecisionRule(), probabilities, targets, torch.arange(200) // 4 % 5)
    >>> found.positives, found.scores["f1"], found.low["f1"]
    (tensor([50]), tensor([1.], dtype=torch.float64), tensor([1.], dtype=torch.float64))
    """
    probabilities, known, present = check_labels(probabilities, targets)
    labels = cross_fitted_labels(rule, probabilities, targets, folds)
    hits = (labels & present).sum(dim=0)
    alarms = (labels & known & ~present).sum(dim=0)
    positives = present.sum(dim=0)
    scores = _named(_scores(*(each.double().numpy() for each in (hits, alarms, positives))))
    ends = np.full((2, len(_NAMES), len(positives)), np.nan)
    if rule.top is None:
        shared = rule.shared_cut(probabilities, targets)
        fold = np.unique(np.asarray(folds), return_inverse=True)[1]
        group = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
        for index in (positives >= fewest).nonzero().flatten().tolist():
            rows = known[:, index].numpy()
            drawn = _resampled_class(
                rule,
                logit(probabilities[:, index].numpy())[rows].clip(-BOUND, BOUND),
                present[:, index].numpy()[rows],
                fold[rows],
                group=None if group is None else group[rows],
                shared=shared,
                generator=np.random.default_rng([seed, index]),
                resamples=resamples,
            )
            ends[:, :, index] = np.quantile(drawn, [0.025, 0.975], axis=1)
    return ExpectedScores(positives, scores, *map(_named, ends))


_NAMES = ("precision", "recall", "f1")


def _named(rows: NDArray[np.float64]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(row) for name, row in zip(_NAMES, rows, strict=True)}


def _scores(
    hits: NDArray[np.float64], alarms: NDArray[np.float64], positives: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Precision, recall and F1, stacked; 0/0 is 0."""
    found = np.stack([hits + alarms, positives, (hits + alarms + positives) / 2])
    return np.asarray(hits / np.maximum(found, 1e-12))


def _resampled_class(
    rule: DecisionRule,
    scores: NDArray[np.float64],
    present: NDArray[np.bool_],
    fold: NDArray[np.int64],
    *,
    group: NDArray[np.int64] | None,
    shared: float,
    generator: np.random.Generator,
    resamples: int,
) -> NDArray[np.float64]:
    """Precision, recall and F1 (3, B) of one class in resampled rows, with a new threshold in each fold.

    Rows enter as counts between neighbouring cuts: the sum of n rows' Poisson weights is Poisson, too. Groups
    enter by their own counts.
    """
    cuts = _candidate_cuts(scores, present, shared)  # (M,)
    shape = (2, int(fold.max()) + 1, len(cuts) + 1)
    places = (present.astype(int), fold, np.searchsorted(cuts, scores, side="right"))
    if group is None:
        counts = np.zeros(shape)
        np.add.at(counts, places, 1)
        drawn = generator.poisson(counts, size=(resamples, *shape)).astype(np.float64)  # (B, 2, K, M + 1)
    else:
        place, size = np.ravel_multi_index(places, shape), int(np.prod(shape))
        weights = generator.poisson(1.0, size=(resamples, int(group.max()) + 1))
        drawn = np.stack([np.bincount(place, each[group], minlength=size) for each in weights])
        drawn = drawn.reshape(resamples, *shape)
    above = drawn[..., ::-1].cumsum(-1)[..., ::-1]
    total = above[:, 1, :, 0]  # positives (B, K)
    none = np.zeros_like(above[..., :1])  # a cut above all scores predicts nothing
    above = np.concatenate([above[..., 1:], none], axis=-1)
    others = above[..., :-1].sum(axis=2, keepdims=True) - above[..., :-1]  # (B, 2, K, M)
    positives = total.sum(axis=1, keepdims=True) - total  # of the other folds, (B, K)
    merit = rule.merit(others[:, 1], others[:, 0], positives[..., None])
    best = (merit - 1e-9 * np.abs(cuts - shared)).argmax(-1)  # (B, K)
    cut = rule.shrunk(cuts[best], shared, positives, SHRINKAGE)
    place = np.searchsorted(cuts, cut - 1e-12)[..., None]  # (B, K, 1)
    alarms, hits = (np.take_along_axis(above[:, label], place, axis=-1).sum((1, 2)) for label in (0, 1))
    return _scores(hits, alarms, total.sum(axis=1))


def _candidate_cuts(
    scores: NDArray[np.float64], present: NDArray[np.bool_], shared: float
) -> NDArray[np.float64]:
    own = np.sort(scores[present])
    steps = np.linspace(0, len(own) - 1, min(len(own), MOST_POSITIVE_CUTS)).round().astype(int)
    quantiles = np.quantile(scores, np.linspace(0, 1, QUANTILE_CUTS))
    return np.unique(np.concatenate([own[steps], quantiles, [shared]]))
