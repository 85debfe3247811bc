"""Base classes of the losses: class weights, known labels, reduction."""

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

    The base class applies the class weights and the reduction, and converts half precision to float32.
    Unknown labels (target −1 or NaN) get no loss and no gradient. Shapes are (N, C), or (N, C, …) with the
    class on axis 1. Other targets outside 0 to 1 raise a ValueError, on the CPU only: on other devices the
    check would have to wait.

    >>> class Brier(ElementwiseLoss):
    ...     def elementwise(self, logits, targets):
    ...         return (logits.sigmoid() - targets).square()
    >>> Brier()(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, -1.0]]))
    tensor(0.2500)

    Args:
        weight: Weight of each class, shape (C,), such as `class_balanced_weights`; None is 1 for all.
        per_sample: True gives all C terms of a sample the weight of its label (Cui et al. 2019, for data with
            one label per sample). False gives each term the weight of its class (the multi-label form).
        reduction: "mean" over the known labels; "batchmean", the sum over classes and the mean over samples;
            "sum"; or "none", as needed inside `PartialLabelMasking`.
    """

    # True if PLM's prior shift turns outputs back into probabilities: the loss must be minimised by the true
    # probability and weight both labels of a class equally.
    supports_prior_shift: bool = False

    def __init__(
        self, *, weight: Any = None, per_sample: bool = False, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(weight=weight, reduction=reduction)
        self.per_sample = per_sample
        if per_sample:  # a class's positives and negatives then have different weights
            self.supports_prior_shift = False

    def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Loss of each label, in the shape of logits and targets; unknown labels are already replaced."""
        raise NotImplementedError

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Loss of the known labels, reduced; see the class."""
        if logits.ndim < 2 or logits.shape != targets.shape:
            raise ValueError(
                "logits and targets must both have shape (N, C), "
                f"got {tuple(logits.shape)} and {tuple(targets.shape)}: turn class indices into one-hot rows"
            )
        logits = full_precision(logits)
        known = _known_labels(targets)
        targets = targets.to(logits.dtype)
        if known is not None:
            # Unknown values become zeros, because the product of a NaN with zero is NaN.
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
    """True for each known target, not −1 or NaN; None if a cheap check shows that all are known."""
    # On other devices the check would wait for the result, and under torch.compile it would break the graph.
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
    """Logits in half precision as float32; other logits unchanged."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
