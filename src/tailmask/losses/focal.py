"""The focal loss of Lin et al. 2017."""

from __future__ import annotations

from typing import Annotated, Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from tailmask._util.registry import Option, word
from tailmask.losses.elementwise_loss import ElementwiseLoss, Shared
from tailmask.losses.weights import as_float32, over_classes

__all__ = ["FocalLoss", "focal_loss"]


def focal_loss(logits: Tensor, targets: Tensor, gamma: float = 2.0) -> Tensor:
    """Focal loss of each label, (1 − p_t)^γ · −log p_t (Lin et al. 2017).

    p_t is the probability that the network gives to the label. The focus is computed as the exponential of
    γ log(1 − p_t) from a log-sigmoid: this never overflows, and has a gradient even if 1 − p_t is zero and
    γ < 1. A soft target y has the focus (1 − p)^(γ y) · p^(γ (1 − y)).

    >>> focal_loss(torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 0.0]]))
    tensor([[0.1733, 1.6501]])
    """
    log_p = F.logsigmoid(logits)
    cross_entropy = (1 - targets) * logits - log_p
    return torch.exp(gamma * (log_p - targets * logits)) * cross_entropy


@word("focal", kind="loss", summary="labels that are already right weigh less")
class FocalLoss(ElementwiseLoss):
    """Focal loss (Lin et al. 2017): labels that are already predicted well weigh less.

    Binary cross-entropy times (1 − p_t)^γ, where p_t is the probability that the network gives to the label.

    >>> FocalLoss(gamma=2.0)(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(0.1733)

    Args:
        gamma: γ, the focus. 0 is binary cross-entropy. Lin et al. use 2 for detection; Cui et al. 2019 and
            the recipes of long-tailed CIFAR use 1.
        alpha: α, the weight of the positives; the negatives have 1 − α. By default both have the weight 1.
            Lin et al. use 0.25 with γ = 2. In Python also one number per class, shape (C,).
        shared: `weight`, `per_sample` and `reduction`, as in `ElementwiseLoss`.

    Mind:
        Outputs are under-confident, so thresholds other than 0.5 work better.

    Paper:
        Lin, Goyal, Girshick, He, Dollár,
        [Focal Loss for Dense Object Detection](https://arxiv.org/abs/1708.02002), ICCV 2017
    """

    alpha: Tensor | None

    def __init__(
        self,
        gamma: Annotated[float, Option(minimum=0)] = 2.0,
        *,
        alpha: Annotated[Any, Option(minimum=0, maximum=1, kind=float)] = None,
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(**shared)
        self.gamma = gamma
        if alpha is not None:
            alpha = as_float32(alpha, name="alpha")
            if alpha.ndim > 1 or not bool(((alpha >= 0) & (alpha <= 1)).all()):
                raise ValueError(f"alpha must be a number from 0 to 1, or such numbers (C,), got {alpha}")
        self.register_buffer("alpha", alpha)

    def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Focal loss of each label, times α or 1 − α."""
        losses = focal_loss(logits, targets, self.gamma)
        if self.alpha is None:
            return losses
        alpha = over_classes(self.alpha, logits, name="alpha") if self.alpha.ndim else self.alpha
        return losses * (targets * alpha + (1 - targets) * (1 - alpha))
