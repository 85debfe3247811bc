"""The Hill loss of Zhang et al. 2021."""

from __future__ import annotations

from typing import Annotated, Unpack

import torch
from torch import Tensor

from tailmask._util.registry import Option, word
from tailmask.losses.elementwise_loss import ElementwiseLoss, Shared
from tailmask.losses.focal import focal_loss

__all__ = ["HillLoss"]


@word("hill", kind="loss", summary="for data where missing positives are recorded as negatives")
class HillLoss(ElementwiseLoss):
    """Hill loss (Zhang et al. 2021), for data where missing positives are recorded as negatives.

    See [missing labels](missing-labels.md#missing-positives-that-are-recorded-as-negatives). A negative costs
    (λ − p) · p². With the published λ = 1.5 its gradient is 3 p² (1 − p)², a hill around p = 0.5: if the
    network is sure that the class is present, a negative label hardly counts. A positive costs the focal loss
    of its logit minus a margin. A soft target mixes both.

    >>> HillLoss(reduction="none")(torch.tensor([[0.0, 0.0, 4.0]]), torch.tensor([[1.0, 0.0, 0.0]]))
    tensor([[0.7019, 0.2500, 0.4995]])

    Args:
        gamma: Focus of the positives.
        margin: Margin of the positives.
        shared: `weight`, `per_sample` and `reduction`, as in `ElementwiseLoss`.

    Mind:
        Outputs are not probabilities. True negatives count less too, even if no label is missing.

    Paper:
        Zhang et al., [Simple and Robust Loss Design for Multi-Label Learning with Missing
        Labels](https://arxiv.org/abs/2112.07368), 2021
    """

    def __init__(
        self,
        *,
        gamma: Annotated[float, Option(minimum=0)] = 2.0,
        margin: Annotated[float, Option()] = 1.0,
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(**shared)
        self.gamma, self.margin = gamma, margin

    def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Hill loss of each label."""
        positive = focal_loss(logits - self.margin, torch.ones_like(logits), self.gamma)
        p = logits.sigmoid()
        return torch.lerp((1.5 - p) * p.square(), positive, targets)
