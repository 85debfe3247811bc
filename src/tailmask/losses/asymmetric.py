"""The asymmetric loss (ASL) of Ridnik et al. 2021."""

from __future__ import annotations

from typing import Annotated, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from tailmask._util.registry import Option, word
from tailmask.losses.elementwise_loss import ElementwiseLoss, Shared

__all__ = ["AsymmetricLoss", "asymmetric_loss"]


def asymmetric_loss(
    logits: Tensor,
    targets: Tensor,
    *,
    gamma_neg: float = 4.0,
    gamma_pos: float = 0.0,
    clip: float = 0.05,
    detach: bool = True,
) -> Tensor:
    """Asymmetric loss of each label (Ridnik et al. 2021): a focus per label, and a margin for negatives.

    A positive label costs (1 − p)^γ⁺ · −log p, a negative one p_m^γ⁻ · −log(1 − p_m) with
    p_m = max(p − clip, 0): a negative with p below the margin costs nothing. A soft target mixes both.

    With `detach` the gradient treats the focusing weights (1 − p)^γ⁺ and p_m^γ⁻ as constants. The value of
    the loss is the same.

    >>> asymmetric_loss(torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 0.0]]))
    tensor([[0.6931, 0.8464]])
    """
    log_p = F.logsigmoid(logits)
    log_not_p = log_p - logits
    focus_pos = torch.exp(gamma_pos * log_not_p)
    if clip > 0:
        # p_m is never exactly zero, because at the margin the gradient of a power below one would not be
        # finite. It is never exactly one either, because rounding can lose a small margin.
        limits = torch.finfo(logits.dtype)
        shifted = (logits.sigmoid() - clip).clamp(limits.tiny, 1.0 - limits.eps)  # p_m
        focus_neg, log_not_p = shifted**gamma_neg, torch.log1p(-shifted)
    else:
        focus_neg = torch.exp(gamma_neg * log_p)
    if detach:
        focus_pos, focus_neg = focus_pos.detach(), focus_neg.detach()
    return torch.lerp(-focus_neg * log_not_p, -focus_pos * log_p, targets)


@word(
    "asl", kind="loss", summary="easy negatives weigh less than easy positives, and the easiest are dropped"
)
class AsymmetricLoss(ElementwiseLoss):
    """Asymmetric loss, ASL (Ridnik et al. 2021): negatives are focused harder than positives, and clipped.

    The easiest negatives cost nothing. The defaults are those of the authors' training on MS-COCO (their
    class itself has `gamma_pos=1`). Their code also clamps log p at log 10⁻⁸, below which a positive has no
    gradient; this loss does not.

    >>> AsymmetricLoss()(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(0.3588)

    Args:
        gamma_neg: γ⁻, the focus of negatives.
        gamma_pos: γ⁺, the focus of positives.
        clip: Probability margin; negatives with a lower probability have no loss.
        detach: Treat the focusing weights as constants in the gradient, as the authors do in training
            (`disable_torch_grad_focal_loss=True`). `asl:detach=false` takes their gradient as well.
        shared: `weight`, `per_sample` and `reduction`, as in `ElementwiseLoss`.

    Mind:
        Predicts more labels at 0.5 than cross-entropy does. Outputs are not probabilities.

    Paper:
        Ridnik et al.,
        [Asymmetric Loss For Multi-Label Classification](https://arxiv.org/abs/2009.14119), ICCV 2021
    """

    def __init__(
        self,
        *,
        gamma_neg: Annotated[float, Option(minimum=0)] = 4.0,
        gamma_pos: Annotated[float, Option(minimum=0)] = 0.0,
        clip: Annotated[float, Option(minimum=0, below=1)] = 0.05,
        detach: Annotated[bool, Option()] = True,
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(**shared)
        self.gamma_neg = gamma_neg
        self.gamma_pos = gamma_pos
        self.clip = clip
        self.detach = detach

    def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Asymmetric loss of each label."""
        return asymmetric_loss(
            logits,
            targets,
            gamma_neg=self.gamma_neg,
            gamma_pos=self.gamma_pos,
            clip=self.clip,
            detach=self.detach,
        )
