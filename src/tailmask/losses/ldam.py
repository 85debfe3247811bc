"""The label-distribution-aware margin loss (LDAM) of Cao et al. 2019, in its published softmax form."""

from __future__ import annotations

from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tailmask._util.label_values import read_indices
from tailmask._util.reduction import Reduction
from tailmask._util.registry import Option, word
from tailmask.losses.elementwise_loss import WeightedLoss, full_precision
from tailmask.losses.weights import class_vector

__all__ = ["LDAMLoss", "ldam_margins"]

_UNKNOWN = -1


def ldam_margins(positives: Tensor, max_margin: float = 0.5) -> Tensor:
    """Margin of each class, ∝ n^(−1/4); the rarest class has `max_margin` (Cao et al. 2019).

    A class without positives gets the margin of the rarest class with positives.

    >>> ldam_margins(torch.tensor([16.0, 1.0, 0.0]))
    tensor([0.2500, 0.5000, 0.5000])
    """
    present = positives[positives > 0]
    if not len(present):
        raise ValueError("positives must have at least one class with samples, got none")
    rarest = present.min()
    return max_margin * (rarest / positives.clamp(min=rarest)) ** 0.25


@word(
    "ldam",
    kind="loss",
    summary="a softmax with larger margins for rarer classes; for one label per sample",
    single_label=True,
    not_with={
        "plm": "plm masks single labels, but ldam is a softmax over all of them",
        "cb:per_sample": "ldam has one weight per sample in any case",
    },
)
class LDAMLoss(WeightedLoss):
    """Softmax cross-entropy with a larger margin for rarer classes, LDAM (Cao et al. 2019).

    For data with one label per sample, so not for use inside `PartialLabelMasking`. The logits are cosine
    similarities: the last layer normalises its input and its weights and has no bias. The published LDAM-DRW
    is `ldam+drw`: this loss in a `DeferredReweighting` with `class_balanced_weights` and reduction "mean".

    >>> loss = LDAMLoss(positives=[16, 1])
    >>> loss(torch.tensor([[0.3, 0.1]]), torch.tensor([0]))
    tensor(1.7014)

    Args:
        positives: Samples of each class in the training data, shape (C,).
        max_margin: Margin of the rarest class.
        scale: Factor s on the cosines before the softmax.
        weight: Weight of each class, shape (C,); None is 1 for all.
        reduction: "mean", weighted as in `nn.CrossEntropyLoss`: the sum over the sum of the samples' weights;
            "batchmean", the sum over the number of samples; "sum"; or "none", shape (N,).

    Mind:
        For one label per sample only; published as `ldam+drw`.

    Paper:
        Cao, Wei, Gaidon, Arechiga, Ma, [Learning Imbalanced Datasets with Label-Distribution-Aware Margin
        Loss](https://arxiv.org/abs/1906.07413), NeurIPS 2019
    """

    margins: Tensor  # (C,)

    def __init__(
        self,
        positives: Any,
        *,
        max_margin: Annotated[float, Option(minimum=0)] = 0.5,
        scale: Annotated[float, Option(above=0)] = 30.0,
        weight: Any = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight=weight, reduction=reduction)
        self.scale = scale
        self.register_buffer("margins", ldam_margins(class_vector(positives, name="positives"), max_margin))

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Loss for class indices (N,) or one-hot rows (N, C); samples without a known label are left out."""
        num_classes = len(self.margins)
        if logits.ndim != 2 or logits.shape[1] != num_classes:
            raise ValueError(f"logits must have shape (N, {num_classes}), got {tuple(logits.shape)}")
        if targets.shape not in (logits.shape, logits.shape[:1]):
            raise ValueError(
                f"targets must have shape ({len(logits)},) or {tuple(logits.shape)}, "
                f"got {tuple(targets.shape)}"
            )
        classes = _class_indices(targets, num_classes)  # (N,)
        logits = full_precision(logits).where((classes != _UNKNOWN).unsqueeze(1), 0.0)
        weights = self._sample_weights(classes).to(logits.dtype)
        classes = classes.clamp(min=0)
        margins = F.one_hot(classes, num_classes) * self.margins.to(logits.dtype)
        losses = F.cross_entropy(self.scale * (logits - margins), classes, reduction="none")
        return self._reduce(losses * weights, weights)

    def total_weight(self, targets: Tensor) -> Tensor:
        """The divisor of the reduction "mean", (): the sum of the weights of the batch's samples."""
        return self._sample_weights(_class_indices(targets, len(self.margins))).sum()

    def _sample_weights(self, classes: Tensor) -> Tensor:
        known = (classes != _UNKNOWN).to(self.margins.dtype)
        return known if self.weight is None else known * self.weight[classes.clamp(min=0)]

    def _reduce(self, losses: Tensor, weights: Tensor) -> Tensor:
        if self.reduction == "none":
            return losses
        total = losses.sum()
        if self.reduction == "mean":
            return total / weights.sum().clamp(min=torch.finfo(weights.dtype).tiny)
        return total / len(losses) if self.reduction == "batchmean" else total


def _class_indices(targets: Tensor, num_classes: int) -> Tensor:
    """Class of each sample, −1 if it is unknown; a ValueError for rows with several labels."""
    if targets.ndim == 1:
        return read_indices(targets, num_classes)[0]
    positive = targets > 0  # (N, C), False for −1 and NaN
    if not torch.compiler.is_compiling() and bool((positive.sum(dim=1) > 1).any()):
        raise ValueError(
            "LDAM needs exactly one label per sample, got several or soft ones: "
            "use an elementwise loss such as FocalLoss or DistributionBalancedLoss"
        )
    return positive.long().argmax(dim=1).where(positive.any(dim=1), _UNKNOWN)
