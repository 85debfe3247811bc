"""The Hill loss of Zhang et al. 2021."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tailmask.losses.base import ElementwiseLoss
from tailmask.losses.elementwise import focal_loss

__all__ = ["HillLoss"]


class HillLoss(ElementwiseLoss):
    """Hill loss (Zhang et al. 2021), for data where many labels that nobody wrote down stand as negatives.

    A negative costs (λ − p) · p². The published λ = 1.5 pulls it down by 3 p² (1 − p)², a hill around
    p = 0.5: it is let go where the network is sure of a positive. A positive costs the focal loss, of focus
    `gamma`, of its logit less `margin`. A soft target mixes both. `options` are those of `ElementwiseLoss`.

    >>> HillLoss(reduction="none")(torch.tensor([[0.0, 0.0, 4.0]]), torch.tensor([[1.0, 0.0, 0.0]]))
    tensor([[0.7019, 0.2500, 0.4995]])
    """

    def __init__(self, *, gamma: float = 2.0, margin: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        if gamma < 0:
            raise ValueError(f"gamma must be 0 or more, got {gamma:g}")
        self.gamma, self.margin = gamma, margin

    def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Hill loss of each label."""
        positive = focal_loss(logits - self.margin, torch.ones_like(logits), self.gamma)
        p = logits.sigmoid()
        return torch.lerp((1.5 - p) * p.square(), positive, targets)
