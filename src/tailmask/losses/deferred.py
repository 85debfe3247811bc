"""Deferred re-weighting (Cao et al. 2019)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tailmask.buffers import ExactBuffers
from tailmask.losses.base import WeightedLoss
from tailmask.losses.weights import class_vector
from tailmask.reduction import Reduction

__all__ = ["DeferredReweighting"]


class DeferredReweighting(ExactBuffers):
    """Deferred re-weighting, DRW (Cao et al. 2019): a loss whose class weights begin at a later epoch.

    Before `start_epoch`, counted from 0, all classes weigh 1. From then on the weights are the loss's own
    `weight`: one a class for an elementwise loss, one a sample for LDAM and with `per_sample=True`. It is
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
                "the loss must be one of tailmask.losses, with weight=None: "
                "DeferredReweighting brings the weights to it"
            )
        self.loss = loss
        self.start_epoch = start_epoch
        self.register_buffer("weight", class_vector(weight, name="weight"))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))
        loss.weight = torch.ones_like(self.weight)
        self.set_epoch(0)

    @property
    def is_active(self) -> bool:
        """Whether the weights are in force."""
        return bool(self.epoch >= self.start_epoch)

    @property
    def reduction(self) -> Reduction:
        """Reduction of the loss."""
        return self.loss.reduction

    @property
    def supports_prior_shift(self) -> bool:
        """Whether PLM's prior shift is valid for the loss."""
        return bool(getattr(self.loss, "supports_prior_shift", False))

    def set_epoch(self, epoch: int) -> None:
        """Tell which epoch begins, counted from 0."""
        self.epoch.fill_(epoch)
        # In place, so that a compiled loss stays compiled.
        self.loss.get_buffer("weight").copy_(self.weight if self.is_active else torch.ones_like(self.weight))

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss, with the weights of the present epoch."""
        result: Tensor = self.loss(logits, targets)
        return result
