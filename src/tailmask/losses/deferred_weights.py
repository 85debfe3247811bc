"""Deferred re-weighting (Cao et al. 2019)."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from tailmask._util.exact_buffers import ExactBuffers
from tailmask._util.reduction import Reduction
from tailmask._util.registry import Option, word
from tailmask.losses.elementwise_loss import WeightedLoss
from tailmask.losses.weights import class_vector

__all__ = ["DeferredReweighting", "deferred"]


class DeferredReweighting(ExactBuffers):
    """Deferred re-weighting, DRW (Cao et al. 2019): a loss whose class weights begin at a later epoch.

    Before `start_epoch`, counted from 0, all classes have the weight 1. From then on `weight` is the loss's
    weight: one per class for an elementwise loss, one per sample for LDAM and with `per_sample=True`. It is
    itself a loss, also inside `PartialLabelMasking`, and the epoch is part of its state.

    >>> from tailmask.losses import BinaryCrossEntropy
    >>> loss = DeferredReweighting(BinaryCrossEntropy(), [0.5, 1.5], start_epoch=160)
    >>> logits, targets = torch.zeros(1, 2), torch.tensor([[1.0, -1.0]])
    >>> loss(logits, targets)
    tensor(0.6931)
    >>> loss.set_epoch(160)
    >>> loss(logits, targets)
    tensor(0.3466)
    """

    weight: Tensor  # (C,)
    epoch: Tensor  # ()

    def __init__(self, loss: WeightedLoss, weight: Any, *, start_epoch: int) -> None:
        super().__init__()
        if not isinstance(loss, WeightedLoss) or loss.weight is not None:
            raise ValueError(
                f"the loss must be one of tailmask.losses with weight=None, got {loss!r}: "
                "pass the weights to DeferredReweighting"
            )
        self.loss = loss
        self.start_epoch = start_epoch
        self.register_buffer("weight", class_vector(weight, name="weight"))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))
        loss.weight = torch.ones_like(self.weight)
        self.set_epoch(0)

    @property
    def is_active(self) -> bool:
        """True if the weights are used in the current epoch."""
        return bool(self.epoch >= self.start_epoch)

    @property
    def reduction(self) -> Reduction:
        """The reduction of the loss."""
        return self.loss.reduction

    @property
    def supports_prior_shift(self) -> bool:
        """True if PLM's prior shift is valid for the loss."""
        return bool(getattr(self.loss, "supports_prior_shift", False))

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that begins, counted from 0."""
        self.epoch.fill_(epoch)
        # In place, to keep a compiled loss compiled.
        self.loss.get_buffer("weight").copy_(self.weight if self.is_active else torch.ones_like(self.weight))

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss with the weights of the current epoch."""
        result: Tensor = self.loss(logits, targets)
        return result


@word("drw", kind="deferral", implies="cb", summary="class weights begin late in training")
def deferred(
    loss: WeightedLoss,
    weight: Any,
    *,
    num_epochs: int,
    start: Annotated[float, Option(minimum=0, below=1)] = 0.8,
) -> DeferredReweighting:
    """Deferred re-weighting, DRW (Cao et al. 2019): trains unweighted first, then with class weights.

    The weights are those of `cb`, which `+drw` includes; their β is `cb:beta`.

    >>> from tailmask.losses import BinaryCrossEntropy
    >>> deferred(BinaryCrossEntropy(), [0.5, 1.5], num_epochs=200).start_epoch
    160

    Args:
        loss: The loss, without weights.
        weight: Weight of each class, shape (C,).
        num_epochs: Number of training epochs; the last epoch always has the weights.
        start: Share of the epochs after which the weights begin; the paper uses 160 of 200 epochs.

    Mind:
        A short training leaves few epochs for the weights: the last fifth of 20 epochs is four.

    Paper:
        Cao, Wei, Gaidon, Arechiga, Ma, [Learning Imbalanced Datasets with Label-Distribution-Aware Margin
        Loss](https://arxiv.org/abs/1906.07413), NeurIPS 2019
    """
    return DeferredReweighting(loss, weight, start_epoch=min(round(start * num_epochs), num_epochs - 1))
