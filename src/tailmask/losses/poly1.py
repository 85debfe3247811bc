"""The Poly-1 loss of Leng et al. 2022."""

from __future__ import annotations

from typing import Annotated, Unpack

import torch
from torch import Tensor

from tailmask._util.registry import Option, word
from tailmask.losses.elementwise_loss import ElementwiseLoss, Shared
from tailmask.losses.focal import focal_loss

__all__ = ["Poly1Loss"]


@word("poly1", kind="loss", summary="cross-entropy or focal loss with another weight for its first term")
class Poly1Loss(ElementwiseLoss):
    """Poly-1 loss (Leng et al. 2022): the first term of the cross-entropy's expansion gets another weight.

    With p_t the probability of the label, cross-entropy is the series Σ (1 − p_t)^j / j. If a label is almost
    right, the first term, 1 − p_t, is nearly the whole sum. Poly-1 adds ε times this term:
    −log p_t + ε (1 − p_t), and with a focus (1 − p_t)^γ · −log p_t + ε (1 − p_t)^(γ + 1). A soft target
    mixes both labels.

    >>> Poly1Loss(epsilon=1.0)(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(1.1931)

    Args:
        epsilon: ε. 0 does not change the loss. Above 0, labels that are almost right weigh more; below 0 they
            weigh less, as with a focus. The best value depends on the data: try several.
        gamma: γ, the focus; 0 is cross-entropy.
        shared: `weight`, `per_sample` and `reduction`, as in `ElementwiseLoss`.

    Mind:
        Outputs are not probabilities: with ε above 0 they are more confident, below 0 less.

    Paper:
        Leng, Tan, Liu, Cubuk, Shi, Cheng, Anguelov, [PolyLoss: A Polynomial Expansion Perspective of
        Classification Loss Functions](https://arxiv.org/abs/2204.12511), ICLR 2022
    """

    def __init__(
        self,
        *,
        epsilon: Annotated[float, Option(minimum=-1)] = 1.0,
        gamma: Annotated[float, Option(minimum=0)] = 0.0,
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(**shared)
        self.epsilon, self.gamma = epsilon, gamma

    def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Poly-1 loss of each label."""
        power = self.gamma + 1
        first_term = torch.lerp(logits.sigmoid() ** power, (-logits).sigmoid() ** power, targets)
        return focal_loss(logits, targets, self.gamma) + self.epsilon * first_term
