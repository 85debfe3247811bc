"""Thresholds by F1 on validation data, one for each class; few positives draw them to a shared one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from tailmask._util.label_values import check_probabilities, check_targets
from tailmask.functional import histogram

__all__ = [
    "BOUND",
    "SHRINKAGE",
    "best_on_grid",
    "check_labels",
    "counts_above",
    "fit_shared_threshold",
    "fit_thresholds",
    "logit",
]

# Shared thresholds are looked for, and fitted ones are averaged, within these logits: probabilities of 6e-6
# and its opposite. A class whose best threshold lies beyond is one whose positives were never recognised.
BOUND = 12.0
NUM_STEPS = 240

# In trials on Mulan's sets with validation parts of 2, 5 and 15 %, values from 3 to 10 did about as well, and
# better than thresholds of each class's own or one for all.
SHRINKAGE = 5.0

BLOCK = 2**22  # labels worked on at once


def fit_thresholds(probabilities: Tensor, targets: Tensor, *, shrinkage: float = SHRINKAGE) -> Tensor:
    """Thresholds (C,) that are good for F1 on validation data and hold on other data, for rare classes too.

    Each class has a threshold of its own with the highest F1, halfway (in logits) between two scores, and
    all share one, with the highest mean F1 (`fit_shared_threshold`). The former is exact for the validation
    data and, with few positives, mostly chance. So the two are averaged as logits, with weights n and
    `shrinkage` for a class with n validation positives: empirical Bayes' form for the mean of n observations
    with a known prior. A class without positives gets the shared threshold; `shrinkage=0` averages nothing;
    `shrinkage=math.inf` shares one threshold.

    Targets are 1, 0, or −1 or NaN where unknown (left out). A label is predicted where its probability is at
    least the threshold, which is a float64 where the probabilities are, else a float32.

    >>> probabilities = torch.tensor([[0.9, 0.2], [0.3, 0.1], [0.2, 0.1], [0.1, 0.1]])
    >>> targets = torch.tensor([[1, 0], [1, 0], [0, 0], [0, 0]])
    >>> fit_thresholds(probabilities, targets, shrinkage=0.0)  # the second has no positives
    tensor([0.2466, 0.2497])
    """
    if not shrinkage >= 0.0:
        raise ValueError(f"shrinkage must be 0 or more, got {shrinkage}")
    probabilities, known, present = check_labels(probabilities, targets)
    shared = _shared_cut(probabilities, known, present)
    positives = torch.count_nonzero(present, dim=0).to(torch.float64)  # (C,)
    own, exact = _best_cuts(probabilities, known, present, shared)
    weight = torch.ones_like(positives) if shrinkage == 0.0 else positives / (positives + shrinkage)
    averaged = torch.sigmoid(shared + weight * (own.clamp(-BOUND, BOUND) - shared))
    return averaged.where((weight < 1.0) | (positives == 0), exact).to(probabilities.dtype)


def fit_shared_threshold(probabilities: Tensor, targets: Tensor) -> float:
    """The one threshold for all classes with the highest F1 on validation data, averaged over classes.

    Classes without a known positive are left out; without any, it is 0.5. It lies on a grid of steps of 0.1
    in logits, and is the middle one of those that are equally good. The mean over classes (macro) is what
    rare classes need: pooled counts (micro) would choose for the frequent ones.

    >>> round(fit_shared_threshold(torch.tensor([[0.4], [0.3], [0.1]]), torch.tensor([[1], [1], [0]])), 3)
    0.182
    """
    probabilities, known, present = check_labels(probabilities, targets)
    return 1.0 / (1.0 + math.exp(-_shared_cut(probabilities, known, present)))


def check_labels(probabilities: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities in float32 or float64, which labels are known, and which present, all (N, C)."""
    if probabilities.ndim != 2 or probabilities.shape != targets.shape:
        raise ValueError(
            "probabilities and targets must have the same shape (N, C), got "
            f"{tuple(probabilities.shape)} and {tuple(targets.shape)}"
        )
    check_probabilities(probabilities)
    check_targets(targets)
    if probabilities.dtype != torch.float64:
        probabilities = probabilities.float()
    return probabilities.detach(), targets >= 0.0, targets >= 0.5


def class_blocks(probabilities: Tensor) -> Iterator[slice]:
    num_samples, num_classes = probabilities.shape
    step = max(1, BLOCK // max(1, num_samples))
    return (slice(start, start + step) for start in range(0, num_classes, step))


def grid_cuts(device: torch.device | None = None) -> Tensor:
    """The logits that shared thresholds are looked for among."""
    steps = torch.arange(NUM_STEPS, dtype=torch.float64, device=device)
    return steps * (2.0 * BOUND / NUM_STEPS) - BOUND


def counts_above(probabilities: Tensor, known: Tensor, present: Tensor) -> Iterator[Tensor]:
    """Known labels (2, c, steps) that each step of the grid would predict, a block of classes at a time."""
    for columns in class_blocks(probabilities):
        position = probabilities[:, columns].logit() / (2.0 * BOUND) + 0.5
        counts = histogram(
            position.clamp_(0.0, 1.0), present[:, columns], NUM_STEPS, known=known[:, columns]
        )  # (2, c, steps)
        yield counts.flip(-1).cumsum(dim=-1).flip(-1)


def _shared_cut(probabilities: Tensor, known: Tensor, present: Tensor) -> float:
    """Logit of the shared threshold."""
    total = torch.zeros(NUM_STEPS, dtype=torch.float64, device=probabilities.device)  # sum of F1 over classes
    for above in counts_above(probabilities, known, present):
        sizes = above.sum(dim=0) + above[1, :, :1]  # predicted and present ones, (c, steps)
        total += (2.0 * above[1].double() / sizes.clamp(min=1)).sum(dim=0)
    return best_on_grid(total) if bool(total.any()) else 0.0


def best_on_grid(merit: Tensor) -> float:
    """The middle one of the grid's cuts with the highest merit (steps,)."""
    merit = merit.clone()
    merit[0] = -math.inf  # the first bin also holds what lies below it
    return float(grid_cuts(merit.device)[merit == merit.max()].median())


def _best_cuts(probabilities: Tensor, known: Tensor, present: Tensor, shared: float) -> tuple[Tensor, Tensor]:
    """Of each class the cut with the highest F1: its logit, and a threshold that separates just there."""
    cuts = np.full(probabilities.shape[1], shared)
    thresholds = np.zeros(probabilities.shape[1])
    for columns in class_blocks(probabilities):
        masked = probabilities[:, columns].where(known[:, columns], -1.0)  # unknown ones below all others
        scores = masked.T.contiguous().cpu().numpy()
        masks = present[:, columns].T.contiguous().cpu().numpy()
        ordered = np.sort(scores, axis=1)
        for index, mask in enumerate(masks):
            positives = np.sort(scores[index, mask])
            if len(positives):
                cut, threshold = _best_cut(ordered[index], positives, shared)
                cuts[columns.start + index], thresholds[columns.start + index] = cut, threshold
    device = probabilities.device
    return torch.from_numpy(cuts).to(device), torch.from_numpy(thresholds).to(device)


def _best_cut(ordered: np.ndarray, positives: np.ndarray, shared: float) -> tuple[float, float]:
    """The best cut of one class: only just below a positive can F1 have its maximum."""
    below = np.searchsorted(ordered, positives)  # labels that a cut just below each positive leaves out
    hits = len(positives) - np.searchsorted(positives, positives)
    f1 = 2.0 * hits / (len(ordered) - below + len(positives))
    best = f1 == f1.max()
    upper = positives[best]
    lower = ordered[np.maximum(below[best] - 1, 0)]
    lower = np.where((below[best] == 0) | (lower < 0.0), upper, lower)  # nothing known is left out
    cuts = (logit(upper) + logit(lower)) / 2.0
    choice = np.abs(cuts - shared).argmin()
    threshold = upper.dtype.type(1.0 / (1.0 + np.exp(-cuts[choice])))
    # Between neighbouring floats there is no room, and the threshold must not reach what it leaves out.
    if not lower[choice] < threshold <= upper[choice]:
        threshold = upper[choice]
    return float(cuts[choice]), float(threshold)


def logit(probabilities: np.ndarray) -> np.ndarray:
    clipped = np.clip(probabilities.astype(np.float64), 1e-38, 1.0 - 2.0**-25)
    return np.log(clipped) - np.log1p(-clipped)
