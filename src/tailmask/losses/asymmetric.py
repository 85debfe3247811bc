"""The asymmetric loss (ASL) of Ridnik et al. 2021."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tailmask.losses.base import ElementwiseLoss
from tailmask.reduction import Reduction

__all__ = ["AsymmetricLoss", "asymmetric_loss"]


def asymmetric_loss(
    logits: Tensor,
    targets: Tensor,
    *,
    gamma_neg: float = 4.0,
    gamma_pos: float = 0.0,
    clip: float = 0.05,
    detach_focus: bool = False,
) -> Tensor:
    """Asymmetric loss of each label (Ridnik et al. 2021): a focus for each label, and a margin for negatives.

    A positive label costs (1 − p)^γ⁺ · −log p, a negative one p_m^γ⁻ · −log(1 − p_m) with
    p_m = max(p − clip, 0): a negative with p under the margin costs nothing. A soft target mixes both.

    >>> asymmetric_loss(torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 0.0]]))
    tensor([[0.6931, 0.8464]])
    """
    log_p = F.logsigmoid(logits)
    log_not_p = log_p - logits
    focus_pos = torch.exp(gamma_pos * log_not_p)
    if clip > 0:
        # Not quite zero: just at the margin, the gradient of a power below one would not be finite. Nor one,
        # where a margin is lost in rounding.
        limits = torch.finfo(logits.dtype)
        shifted = (logits.sigmoid() - clip).clamp(limits.tiny, 1.0 - limits.eps)  # p_m
        focus_neg, log_not_p = shifted**gamma_neg, torch.log1p(-shifted)
    else:
        focus_neg = torch.exp(gamma_neg * log_p)
    if detach_focus:
        focus_pos, focus_neg = focus_pos.detach(), focus_neg.detach()
    return torch.lerp(-focus_neg * log_not_p, -focus_pos * log_p, targets)


class AsymmetricLoss(ElementwiseLoss):
    """Asymmetric loss, ASL (Ridnik et al. 2021): negatives are focused harder than positives, and clipped.

    The defaults are those with which the authors train on MS-COCO (their class itself has `gamma_pos=1`). The
    published code holds log p above log 10⁻⁸, where a positive has no gradient any more; this does not.

    >>> AsymmetricLoss()(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(0.3588)

    Args:
        gamma_neg: γ⁻, the focus of negatives.
        gamma_pos: γ⁺, the focus of positives.
        clip: Probability margin m; negatives with a lower probability have no loss.
        detach_focus: Keep the focusing factors out of the gradient, as `disable_torch_grad_focal_loss` of the
            published code does.
        weight: As in `ElementwiseLoss`.
        per_sample: As in `ElementwiseLoss`.
        reduction: As in `ElementwiseLoss`.
    """

    def __init__(
        self,
        *,
        gamma_neg: float = 4.0,
        gamma_pos: float = 0.0,
        clip: float = 0.05,
        detach_focus: bool = False,
        weight: Any = None,
        per_sample: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight=weight, per_sample=per_sample, reduction=reduction)
        if gamma_neg < 0 or gamma_pos < 0:
            raise ValueError(
                f"gamma_neg and gamma_pos must be 0 or more, got {gamma_neg:g} and {gamma_pos:g}"
            )
        if not 0 <= clip < 1:
            raise ValueError(f"clip is a margin of the probability and must lie in [0, 1), got {clip:g}")
        self.gamma_neg = gamma_neg
        self.gamma_pos = gamma_pos
        self.clip = clip
        self.detach_focus = detach_focus

    def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Asymmetric loss of each label."""
        return asymmetric_loss(
            logits,
            targets,
            gamma_neg=self.gamma_neg,
            gamma_pos=self.gamma_pos,
            clip=self.clip,
            detach_focus=self.detach_focus,
        )
