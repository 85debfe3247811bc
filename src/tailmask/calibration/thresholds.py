"""One threshold per class, fitted for F1 on validation data and shrunk towards a shared threshold."""

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

# The search for shared thresholds and the average of fitted ones stay within ±BOUND logits: probabilities
# from 6e-6 to 1 − 6e-6. If the best threshold lies outside, the class's positives were never recognised.
BOUND = 12.0
NUM_STEPS = 240

# In trials on Mulan's sets with validation parts of 2, 5 and 15 %, all values from 3 to 10 were about equally
# good. They were better than a separate threshold for each class and better than one threshold for all.
SHRINKAGE = 5.0

BLOCK = 2**22  # labels per block


def fit_thresholds(probabilities: Tensor, targets: Tensor, *, shrinkage: float = SHRINKAGE) -> Tensor:
    """Thresholds (C,) with a high F1 on validation data that also work on new data and for rare classes.

    A class's own threshold has the highest F1 of the class and lies halfway (in logits) between two scores.
    With few positives it is mostly chance. The shared threshold has the highest mean F1 over all classes
    (`fit_shared_threshold`). The result is the average of the two in logits, with weights n and `shrinkage`
    for a class with n validation positives. This is the empirical Bayes estimate of a mean from n
    observations and a known prior. A class without positives gets the shared threshold. `shrinkage=0` gives
    the classes' own thresholds, `shrinkage=math.inf` the shared one.

    Targets are 1, 0, or −1 or NaN if unknown; unknown labels are left out. A label is predicted if its
    probability is at least the threshold. Thresholds are float64 if the probabilities are, else float32.

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

    Classes without a known positive are left out; if none is left, the threshold is 0.5. It lies on a grid
    with steps of 0.1 in logits. If several thresholds are equally good, the middle one is returned. F1 is
    averaged over classes (macro) for the sake of rare classes: with pooled counts (micro), the frequent
    classes would decide.

    >>> round(fit_shared_threshold(torch.tensor([[0.4], [0.3], [0.1]]), torch.tensor([[1], [1], [0]])), 3)
    0.182
    """
    probabilities, known, present = check_labels(probabilities, targets)
    return 1.0 / (1.0 + math.exp(-_shared_cut(probabilities, known, present)))


def check_labels(probabilities: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities in float32 or float64, a mask of known labels, and a mask of positives, all (N, C)."""
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


def grid_cuts(device: torch.device) -> Tensor:
    """The logits (steps,) among which a shared threshold is searched."""
    steps = torch.arange(NUM_STEPS, dtype=torch.float64, device=device)
    return steps * (2.0 * BOUND / NUM_STEPS) - BOUND


def counts_above(probabilities: Tensor, known: Tensor, present: Tensor) -> Iterator[Tensor]:
    """Counts (2, c, steps) of the known labels that each step of the grid predicts, per block of classes."""
    for columns in class_blocks(probabilities):
        position = probabilities[:, columns].logit() / (2.0 * BOUND) + 0.5
        counts = histogram(
            position.clamp_(0.0, 1.0), present[:, columns], NUM_STEPS, known=known[:, columns]
        )  # (2, c, steps)
        yield counts.flip(-1).cumsum(dim=-1).flip(-1)


def _shared_cut(probabilities: Tensor, known: Tensor, present: Tensor) -> float:
    """The logit of the shared threshold."""
    total = torch.zeros(NUM_STEPS, dtype=torch.float64, device=probabilities.device)  # sum of F1 over classes
    for above in counts_above(probabilities, known, present):
        sizes = above.sum(dim=0) + above[1, :, :1]  # predicted and present ones, (c, steps)
        total += (2.0 * above[1].double() / sizes.clamp(min=1)).sum(dim=0)
    return best_on_grid(total) if bool(total.any()) else 0.0


def best_on_grid(merit: Tensor) -> float:
    """The cut of the grid with the highest merit (steps,); the middle one if several are equal."""
    merit = merit.clone()
    merit[0] = -math.inf  # the first bin also holds the scores below it
    return float(grid_cuts(merit.device)[merit == merit.max()].median())


def _best_cuts(probabilities: Tensor, known: Tensor, present: Tensor, shared: float) -> tuple[Tensor, Tensor]:
    """The cut of each class with the highest F1: its logit (C,), and an exact threshold (C,) at that cut."""
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
    """The logit and the threshold of one class's best cut, which always lies just below a positive."""
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
    # If the two scores are neighbouring floats, rounding must not move the threshold down to the lower one.
    if not lower[choice] < threshold <= upper[choice]:
        threshold = upper[choice]
    return float(cuts[choice]), float(threshold)


def logit(probabilities: np.ndarray) -> np.ndarray:
    clipped = np.clip(probabilities.astype(np.float64), 1e-38, 1.0 - 2.0**-25)
    return np.log(clipped) - np.log1p(-clipped)
