"""The distribution-balanced loss (DB) of Wu et al. 2020."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tailmask.losses.base import ElementwiseLoss
from tailmask.losses.elementwise import focal_loss
from tailmask.losses.weights import class_vector, over_classes
from tailmask.reduction import Reduction

__all__ = ["DistributionBalancedLoss", "rebalanced_weights"]


def rebalanced_weights(
    targets: Tensor, positives: Tensor, *, alpha: float = 0.1, beta: float = 10.0, mu: float = 0.2
) -> Tensor:
    """Re-balanced weight of each label, r̂ = α + σ(β (r − μ)) (Wu et al. 2020), of the targets' shape.

    r = (1 / n_c) / Σ 1 / n_k, the sum over the sample's labels k, compares how often class-aware sampling
    would draw the sample for class c alone with how often it draws it. Without labels r = ∞ and r̂ = α + 1.
    A class without positives counts as having one.

    >>> rebalanced_weights(torch.tensor([[1.0, 1.0]]), torch.tensor([300.0, 100.0]))
    tensor([[0.7225, 1.0959]])
    """
    inverse = over_classes(1.0 / positives.clamp(min=1.0), targets, name="positives")
    ratio = inverse / (targets * inverse).sum(dim=1, keepdim=True)
    ratio = ratio.clamp(max=torch.finfo(ratio.dtype).max)  # so that β = 0 gives α + ½ here as well
    return alpha + torch.sigmoid(beta * (ratio - mu))


class DistributionBalancedLoss(ElementwiseLoss):
    """Distribution-balanced loss, DB (Wu et al. 2020), made for class-aware sampling of multi-label data.

    It has three parts: the weights r̂ of `rebalanced_weights`; the negative-tolerant regularisation, which
    lowers each logit by a bias ν of its class and for negatives scales it by λ and its loss by 1 / λ; and the
    focal factor. With f the focal loss of a label, a positive costs balance · r̂ · f(z − ν) and a negative
    balance · r̂ · f(λ (z − ν)) / λ, where ν = −κ · log(n⁺ / n⁻) and, as in the published code,
    κ = init_bias / λ.

    >>> loss = DistributionBalancedLoss(positives=[300, 100], negatives=[700, 900])
    >>> loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(0.2762)

    Args:
        positives: Known positives of each class in the training data, shape (C,). A class without any counts
            as having one.
        negatives: Known negatives of each class.
        alpha: Lowest weight of the smoothing map. The defaults here and below are those published for
            COCO-MLT; for VOC-MLT μ is 0.3 and λ is 5.
        beta: Steepness of the smoothing map.
        mu: Middle of the smoothing map.
        neg_scale: λ.
        init_bias: Scale of the classes' bias.
        gamma: Focus of the focal factor; 0 leaves it out.
        balance: Constant factor that goes with the focal factor.
        weight: As in `ElementwiseLoss`.
        per_sample: As in `ElementwiseLoss`.
        reduction: As in `ElementwiseLoss`.
    """

    positives: Tensor  # (C,)
    bias: Tensor  # (C,) −ν

    def __init__(
        self,
        positives: Any,
        negatives: Any,
        *,
        alpha: float = 0.1,
        beta: float = 10.0,
        mu: float = 0.2,
        neg_scale: float = 2.0,
        init_bias: float = 0.05,
        gamma: float = 2.0,
        balance: float = 2.0,
        weight: Any = None,
        per_sample: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight=weight, per_sample=per_sample, reduction=reduction)
        if neg_scale <= 0 or gamma < 0:
            raise ValueError(
                f"neg_scale must be above 0 and gamma 0 or more, got {neg_scale:g} and {gamma:g}"
            )
        positives = class_vector(positives, name="positives").clamp(min=1.0)
        negatives = class_vector(negatives, name="negatives").clamp(min=1.0)
        if positives.shape != negatives.shape:
            raise ValueError(
                "positives and negatives must be of the same classes, "
                f"got {len(positives)} and {len(negatives)} of them"
            )
        self.alpha = alpha
        self.beta = beta
        self.mu = mu
        self.neg_scale = neg_scale
        self.gamma = gamma
        self.balance = balance
        self.register_buffer("positives", positives)
        self.register_buffer("bias", init_bias / neg_scale * torch.log(positives / negatives))

    def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Distribution-balanced loss of each label; its weight depends on all labels of the sample."""
        shifted = logits + over_classes(self.bias, logits, name="the class counts")
        scale = targets + self.neg_scale * (1 - targets)
        losses = focal_loss(scale * shifted, targets, self.gamma) / scale
        weights = rebalanced_weights(targets, self.positives, alpha=self.alpha, beta=self.beta, mu=self.mu)
        return self.balance * weights * losses
