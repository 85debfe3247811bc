"""Binary cross-entropy and the focal loss."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tailmask.losses.base import ElementwiseLoss
from tailmask.losses.weights import as_float32, class_vector, over_classes
from tailmask.reduction import Reduction

__all__ = ["BinaryCrossEntropy", "FocalLoss", "focal_loss"]


class BinaryCrossEntropy(ElementwiseLoss):
    """Binary cross-entropy with logits, the same as `nn.BCEWithLogitsLoss` where all labels are known.

    >>> BinaryCrossEntropy()(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(0.6931)

    Args:
        pos_weight: Weight of each class's positives, shape (C,), such as `positive_weights`. It lifts the
            logits by its logarithm, so that outputs are no probabilities; None is 1 for all.
        weight: As in `ElementwiseLoss`.
        per_sample: As in `ElementwiseLoss`.
        reduction: As in `ElementwiseLoss`.
    """

    supports_prior_shift = True
    pos_weight: Tensor | None

    def __init__(
        self,
        *,
        pos_weight: Any = None,
        weight: Any = None,
        per_sample: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight=weight, per_sample=per_sample, reduction=reduction)
        if pos_weight is not None:
            pos_weight = class_vector(pos_weight, name="pos_weight")
            self.supports_prior_shift = False
        self.register_buffer("pos_weight", pos_weight)

    def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Binary cross-entropy of each label."""
        weight = None if self.pos_weight is None else over_classes(self.pos_weight, logits, name="pos_weight")
        return F.binary_cross_entropy_with_logits(logits, targets, pos_weight=weight, reduction="none")


def focal_loss(logits: Tensor, targets: Tensor, gamma: float = 2.0) -> Tensor:
    """Focal loss of each label, (1 − p_t)^γ · −log p_t (Lin et al. 2017).

    p_t is the probability that the network gives to the label. The focus is the exponential of
    γ log(1 − p_t), taken from a log-sigmoid: that never overflows, and has a gradient also where 1 − p_t is
    zero and γ < 1. A soft target y has the focus (1 − p)^(γ y) · p^(γ (1 − y)).

    >>> focal_loss(torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 0.0]]))
    tensor([[0.1733, 1.6501]])
    """
    log_p = F.logsigmoid(logits)
    cross_entropy = (1 - targets) * logits - log_p
    return torch.exp(gamma * (log_p - targets * logits)) * cross_entropy


class FocalLoss(ElementwiseLoss):
    """Focal loss (Lin et al. 2017), which gives less weight to labels that are already predicted well.

    >>> FocalLoss(gamma=2.0)(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(0.1733)

    Args:
        gamma: γ, the focus; 0 is binary cross-entropy, 2 is published for detection, 1 by Cui et al. 2019.
        alpha: Weight of positives against 1 − α of negatives, for all classes or of shape (C,); None leaves
            both at 1. Lin et al. use 0.25 with γ = 2.
        weight: As in `ElementwiseLoss`.
        per_sample: As in `ElementwiseLoss`.
        reduction: As in `ElementwiseLoss`.
    """

    alpha: Tensor | None

    def __init__(
        self,
        gamma: float = 2.0,
        *,
        alpha: Any = None,
        weight: Any = None,
        per_sample: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight=weight, per_sample=per_sample, reduction=reduction)
        if gamma < 0:
            raise ValueError(f"gamma must be 0 or more, got {gamma:g}")
        self.gamma = gamma
        if alpha is not None:
            alpha = as_float32(alpha, name="alpha")
            if alpha.ndim > 1 or not bool(((alpha >= 0) & (alpha <= 1)).all()):
                raise ValueError(f"alpha must lie in [0, 1], a number or of shape (C,), got {alpha}")
        self.register_buffer("alpha", alpha)

    def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Focal loss of each label, times α or 1 − α."""
        losses = focal_loss(logits, targets, self.gamma)
        if self.alpha is None:
            return losses
        alpha = over_classes(self.alpha, logits, name="alpha") if self.alpha.ndim else self.alpha
        return losses * (targets * alpha + (1 - targets) * (1 - alpha))
