"""What the losses share: class weights, known labels, reduction."""

from __future__ import annotations

from typing import Any, TypedDict

import torch
from torch import Tensor

from tailmask._util.exact_buffers import ExactBuffers
from tailmask._util.label_values import check_targets
from tailmask._util.reduction import Reduction, check_reduction
from tailmask.losses.weights import class_vector, over_classes, sample_weights

__all__ = ["ElementwiseLoss", "Shared", "WeightedLoss", "full_precision"]


class Shared(TypedDict, total=False):
    """The arguments that every elementwise loss takes; see `ElementwiseLoss`."""

    weight: Any
    per_sample: bool
    reduction: Reduction


class WeightedLoss(ExactBuffers):
    """A loss with a reduction and an optional weight for each class, shape (C,)."""

    weight: Tensor | None

    def __init__(self, *, weight: Any, reduction: Reduction) -> None:
        super().__init__()
        check_reduction(reduction)
        self.reduction = reduction
        self.register_buffer("weight", None if weight is None else class_vector(weight, name="weight"))


class ElementwiseLoss(WeightedLoss):
    """Base of the losses that are a sum over single labels: a subclass defines `elementwise`.

    The base leaves out unknown labels (target −1 or NaN), which get no loss and no gradient, applies the
    class weights, reduces, and computes in float32 where the logits are in half precision. Shapes are (N, C),
    or (N, C, …) with the class on axis 1. On the CPU it refuses other targets beyond 0 and 1; on
    other devices looking would mean waiting.

    >>> class Brier(ElementwiseLoss):
    ...     def elementwise(self, logits, targets):
    ...         return (logits.sigmoid() - targets).square()
    >>> Brier()(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, -1.0]]))
    tensor(0.2500)

    Args:
        weight: Weight of each class, shape (C,), such as `class_balanced_weights`; None is 1 for all.
        per_sample: Whether all C terms of a sample get the weight of its own label (Cui et al. 2019, for data
            with one label a sample), rather than each term that of its class (the multi-label form).
        reduction: "mean" over the known labels; "batchmean", the sum over classes and the mean over samples;
            "sum"; or "none", which is what goes inside `PartialLabelMasking`.
    """

    # Whether PLM's prior shift turns outputs back into probabilities: true where the loss is minimised by the
    # true probability and weighs both labels of a class alike.
    supports_prior_shift: bool = False

    def __init__(
        self, *, weight: Any = None, per_sample: bool = False, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(weight=weight, reduction=reduction)
        self.per_sample = per_sample
        if per_sample:  # a class's positives and negatives then have other weights
            self.supports_prior_shift = False

    def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Loss of each label, of the shape of logits and targets, which are all known here."""
        raise NotImplementedError

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Loss of the known labels, reduced; see the class."""
        if logits.ndim < 2 or logits.shape != targets.shape:
            raise ValueError(
                "logits and targets must both have shape (N, C), "
                f"got {tuple(logits.shape)} and {tuple(targets.shape)}: class indices must be made one-hot"
            )
        logits = full_precision(logits)
        known = _known_labels(targets)
        targets = targets.to(logits.dtype)
        if known is not None:
            # Zeros in place of what is unknown: a product with zero would not stop a NaN.
            logits, targets = logits.where(known, 0.0), targets.where(known, 0.0)
        losses = self.elementwise(logits, targets)
        if self.weight is not None:
            losses = losses * self._label_weights(self.weight, targets)
        return self._reduce(losses, known)

    def _label_weights(self, weight: Tensor, targets: Tensor) -> Tensor:
        if self.per_sample:
            return sample_weights(targets, weight).unsqueeze(1)
        return over_classes(weight, targets, name="weight")

    def _reduce(self, losses: Tensor, known: Tensor | None) -> Tensor:
        if known is not None:
            losses = losses.where(known, 0.0)
        if self.reduction == "none":
            return losses
        total = losses.sum()
        if self.reduction == "mean":
            return total / (losses.numel() if known is None else known.sum().clamp(min=1))
        return total / losses.shape[0] if self.reduction == "batchmean" else total


def _known_labels(targets: Tensor) -> Tensor | None:
    """Where targets are neither −1 nor NaN; None where that is everywhere and looking is cheap."""
    # On other devices the look would wait for the result, and when compiling it would break the graph.
    if targets.device.type != "cpu" or torch.compiler.is_compiling():
        return targets >= 0
    if not targets.numel():
        return None
    lowest, highest = (bound.item() for bound in targets.aminmax())  # both NaN if any target is
    if lowest >= 0 and highest <= 1:
        return None
    check_targets(targets)
    return targets >= 0


def full_precision(logits: Tensor) -> Tensor:
    """Logits in float32 where they are in half precision, and as they are otherwise."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
