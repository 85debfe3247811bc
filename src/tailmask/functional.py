"""The paper's equations, one pure function each; torch only.

Partial Label Masking trains each class at its own ratio of positive to negative labels and adapts that
ratio once per epoch. The functions are in the order in which the method uses them:

======================  =======================================================
`class_ratio`           r_c = n_c⁺ / n_c⁻                          (notation)
`keep_probability`      probability that a label stays in the loss  (Eq. 3)
`label_keep`            keep probability of each label of a batch   (Eq. 3)
`draw`                  the mask g, drawn from those probabilities  (Eq. 3)
`histogram`             the binned sets Ŝ⁺ and Ŝ⁻                   (Eq. 4, appendix)
`divergence`            D⁺ and D⁻, KL(P̂ ‖ P)                        (Eq. 5)
`normalize`             z-scores over the classes                   (Eq. 6)
`divergence_gap`        D_c = D̃⁺ − D̃⁻                               (Algorithm 1)
`next_ratio`            r̄ ← r̄ · exp(λ D_c)                          (Eq. 7)
======================  =======================================================

`prevalence_gap` is this project's alternative to `divergence_gap`; it has a fixed point.

In a tensor with both labels, axis 0 is the label: `counts[1]` are the positives. C is the number of classes,
N the number of samples, tau the number of bins.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = [
    "MAX_RATIO",
    "MIN_RATIO",
    "class_ratio",
    "divergence",
    "divergence_gap",
    "draw",
    "histogram",
    "keep_probability",
    "label_keep",
    "next_ratio",
    "normalize",
    "prevalence_gap",
]

# Ratios stay within exp(±30): far beyond any data set, and the product of two never overflows in float32.
MIN_RATIO, MAX_RATIO = math.exp(-30.0), math.exp(30.0)

# The true distributions are one-hot, so the divergence is infinite unless their zeros are replaced.
EPSILON = 1e-7


def class_ratio(positives: Tensor, negatives: Tensor) -> Tensor:
    """Ratio of positive to negative samples of each class, r_c = n⁺ / n⁻ (notation).

    A class without positives gets the smallest allowed ratio, one without negatives the largest. A class
    with neither gets 1.

    >>> class_ratio(torch.tensor([10, 1]), torch.tensor([40, 49]))
    tensor([0.2500, 0.0204])
    """
    ratio = positives.to(torch.float32) / negatives.to(torch.float32)  # (C,)
    return ratio.nan_to_num(nan=1.0).clamp(MIN_RATIO, MAX_RATIO)


def keep_probability(class_ratio: Tensor, target_ratio: Tensor) -> Tensor:
    """Probability that a label of each kind stays in the loss (Eq. 3), shape (2, C).

    If the data have too many positives for the target ratio, positives are kept with probability r̄ / r. If
    they have too few, negatives are kept with probability r / r̄. The other side is always kept, so the kept
    labels have the ratio r̄.

    >>> keep_probability(torch.tensor([2.0, 0.1, 0.5]), torch.tensor([1.0, 0.2, 0.5]))
    tensor([[1.0000, 0.5000, 1.0000],
            [0.5000, 1.0000, 1.0000]])
    """
    negatives = (class_ratio / target_ratio).clamp(max=1.0)
    positives = (target_ratio / class_ratio).clamp(max=1.0)
    return torch.stack([negatives, positives])  # (2, C)


def label_keep(keep: Tensor, targets: Tensor) -> Tensor:
    """Probability that each label stays in the loss, by its class and its side of 0.5 (Eq. 3).

    >>> label_keep(torch.tensor([[1.0, 0.5], [0.2, 1.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor([[0.2000, 0.5000],
            [1.0000, 1.0000]])
    """
    return torch.where(targets >= 0.5, keep[1], keep[0])  # (N, C)


def draw(keep: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Mask g of zeros and ones: each entry is one with its probability in `keep` (Eq. 3).

    The mask has the dtype and the device of `keep`. The generator may be on another device.

    >>> draw(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    tensor([[1., 0.],
            [1., 0.]])
    """
    device = keep.device if generator is None else generator.device
    return torch.bernoulli(keep.to(device), generator=generator).to(keep.device)


def histogram(
    probabilities: Tensor, targets: Tensor, num_bins: int = 10, *, known: Tensor | None = None
) -> Tensor:
    """Counts of the output probabilities in `num_bins` bins, by label and class (Eq. 4 and appendix).

    `counts[1, c]` counts the outputs for class c in samples with the class (the set Ŝ⁺ of the paper),
    `counts[0, c]` in samples without it. Soft targets count by their side of 0.5. `known` is a boolean tensor
    of the targets' shape; labels with False are left out, whatever their probability and target. None counts
    all labels. The sum of two batches' histograms is the histogram of both.

    The paper's toy example:

    >>> y = torch.tensor([[1.0]] * 5 + [[0.0]] * 5)
    >>> p = torch.tensor([[0.2], [0.6], [0.95], [0.99], [0.45], [0.1], [0.15], [0.8], [0.4], [0.3]])
    >>> histogram(p, y, num_bins=4)
    tensor([[[2, 2, 0, 1]],
    <BLANKLINE>
            [[1, 1, 1, 2]]])
    """
    num_classes = probabilities.shape[-1]
    known = torch.ones_like(targets, dtype=torch.bool) if known is None else known
    label = (targets >= 0.5).long()  # (N, C)
    category = torch.arange(num_classes, device=targets.device)  # (C,)
    position = (probabilities * num_bins).long().clamp(max=num_bins - 1)  # the last bin holds 1.0, too
    index = ((label * num_classes + category) * num_bins + position).where(known, 0)
    counts = torch.zeros(2 * num_classes * num_bins, dtype=torch.int64, device=targets.device)
    counts.scatter_add_(0, index.flatten(), known.long().flatten())
    return counts.view(2, num_classes, num_bins)


def divergence(counts: Tensor, *, eps: float = EPSILON) -> Tensor:
    """Divergence of the outputs from the truth, D = KL(P̂ ‖ P), by label and class (Eq. 5), shape (2, C).

    The true distribution P is one-hot: all positives in the last bin, all negatives in the first. Its zeros
    are replaced by `eps`. The divergence is NaN for a label that was never seen.

    >>> counts = torch.tensor([[[9, 1]], [[5, 5]]])  # 9 of 10 negatives and 5 of 10 positives are right
    >>> divergence(counts)
    tensor([[1.2867],
            [7.3659]])
    """
    # An explicit float32: a quotient of integers would have torch's default dtype.
    predicted = counts.to(torch.float32) / counts.sum(dim=-1, keepdim=True)  # P̂, (2, C, tau)
    right = torch.stack([predicted[0, :, 0], predicted[1, :, -1]])  # the mass where P is one, (2, C)
    negative_entropy = torch.xlogy(predicted, predicted).sum(dim=-1)
    return negative_entropy - (1.0 - right) * math.log(eps)


def normalize(divergence: Tensor) -> Tensor:
    """Divergences as z-scores over the classes, D̃ = (D − μ) / σ, separately for each label (Eq. 6).

    σ is the population standard deviation; if it is zero, D̃ is zero. Classes with a NaN for either label are
    left out of μ and σ, and stay NaN.

    >>> normalize(torch.tensor([[0.0, 2.0, 1.0], [1.0, 1.0, torch.nan]]))
    tensor([[-1.,  1., nan],
            [ 0.,  0., nan]])
    """
    complete = divergence.isfinite().all(dim=0)  # (C,)
    number = complete.sum().clamp(min=1)
    filled = divergence.where(complete, 0.0)
    centred = divergence - filled.sum(dim=-1, keepdim=True) / number  # (2, C)
    deviation = (centred.where(complete, 0.0).square().sum(dim=-1, keepdim=True) / number).sqrt()
    # If all divergences are equal, rounding errors of the mean must not become z-scores of one.
    scale = filled.abs().amax(dim=-1, keepdim=True)
    scores = centred / deviation
    return scores.where(deviation > 1e-6 * scale, 0.0).where(complete, torch.nan)


def divergence_gap(counts: Tensor) -> Tensor:
    """Gap of each class, D_c = D̃⁺ − D̃⁻, from Eq. 5 and 6 (Algorithm 1), shape (C,).

    Positive for a class that the network under-predicts compared with the others, negative for one that it
    over-predicts, zero for a class that was not seen with both labels.

    >>> counts = torch.tensor([[[9, 1], [5, 5]], [[5, 5], [1, 9]]])  # the second class is over-predicted
    >>> divergence_gap(counts)
    tensor([ 2., -2.])
    """
    negatives, positives = normalize(divergence(counts)).unbind()
    return (positives - negatives).nan_to_num(nan=0.0)


def prevalence_gap(counts: Tensor, *, shrinkage: float = 5.0) -> Tensor:
    """Log share of true positives minus the log share of predicted ones, shape (C,), within ±1.

    An alternative to `divergence_gap` that converges: it is zero if each class is predicted (with a
    probability of 0.5 or more) as often as it is present. It is meant for held-out data, because on memorised
    training data the two shares always agree.

    A rare class has few positives in held-out data, or none. So the class's own gap, with shares smoothed as
    (n + ½) / (N + 1), is averaged with the mean gap of all classes. The own gap has the weight m, the larger
    of its true and its predicted positives; the mean has the weight `shrinkage`. So a class without evidence
    moves like the others. In the mean, a class has the weight m / (m + `shrinkage`). With `shrinkage=0` each
    class counts alone: a class that is neither present nor predicted keeps its ratio, and a class with only
    false positives gets a lower ratio.

    >>> counts = torch.tensor([[[90, 0], [50, 40], [99, 0]], [[8, 2], [0, 10], [1, 0]]])
    >>> prevalence_gap(counts, shrinkage=0.0)  # present and predicted: 10 and 2, 10 and 50, 1 and 0 of 100
    tensor([ 1., -1.,  1.])
    >>> prevalence_gap(counts)  # the last class has little evidence and follows the mean
    tensor([ 0.6522, -0.9130,  0.1304])
    """
    num_bins = counts.shape[-1]
    if num_bins % 2:
        raise ValueError(f"prevalence_gap needs an even number of bins, with an edge at 0.5, got {num_bins}")
    if not 0.0 <= shrinkage < math.inf:
        raise ValueError(f"shrinkage must be 0 or more and finite, got {shrinkage:g}")
    present = counts[1].sum(dim=-1).to(torch.float32)  # (C,)
    predicted = counts[..., num_bins // 2 :].sum(dim=(0, 2)).to(torch.float32)  # (C,)
    own = ((present + 0.5) / (predicted + 0.5)).log().clamp(-1.0, 1.0)
    evidence = torch.maximum(present, predicted)
    weight = (evidence / (evidence + shrinkage)).nan_to_num(nan=1.0)
    mean = (weight * own).sum() / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)
    return torch.lerp(mean.expand_as(own), own, weight)


def next_ratio(target_ratio: Tensor, gap: Tensor, rate: float) -> Tensor:
    """Target ratio of the next epoch, r̄ · exp(λ D_c) (Eq. 7), within exp(±30).

    >>> next_ratio(torch.tensor([1.0, 0.1]), torch.tensor([-2.0, 2.0]), rate=0.5)
    tensor([0.3679, 0.2718])
    """
    return (target_ratio * torch.exp(rate * gap)).clamp(MIN_RATIO, MAX_RATIO)
