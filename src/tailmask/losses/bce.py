"""Binary cross-entropy, optionally with higher weights for rare positives."""

from __future__ import annotations

from typing import Annotated, Any, Unpack

import torch.nn.functional as F
from torch import Tensor

from tailmask._util.registry import Option, word
from tailmask.losses.elementwise_loss import ElementwiseLoss, Shared
from tailmask.losses.weights import class_vector, over_classes, positive_weights

__all__ = ["BinaryCrossEntropy", "cross_entropy"]


class BinaryCrossEntropy(ElementwiseLoss):
    """Binary cross-entropy with logits, the same as `nn.BCEWithLogitsLoss` if all labels are known.

    >>> import torch
    >>> BinaryCrossEntropy()(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(0.6931)

    Args:
        pos_weight: Weight of each class's positives, shape (C,), such as `positive_weights`; None is 1 for
            all. It raises the logits by its logarithm, so outputs are not probabilities.
        shared: `weight`, `per_sample` and `reduction`, as in `ElementwiseLoss`.
    """

    supports_prior_shift = True
    pos_weight: Tensor | None

    def __init__(self, *, pos_weight: Any = None, **shared: Unpack[Shared]) -> None:
        super().__init__(**shared)
        if pos_weight is not None:
            pos_weight = class_vector(pos_weight, name="pos_weight")
            self.supports_prior_shift = False
        self.register_buffer("pos_weight", pos_weight)

    def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Binary cross-entropy of each label."""
        weight = None if self.pos_weight is None else over_classes(self.pos_weight, logits, name="pos_weight")
        return F.binary_cross_entropy_with_logits(logits, targets, pos_weight=weight, reduction="none")


@word("bce", kind="loss", summary="binary cross-entropy, the baseline")
def cross_entropy(
    positives: Any,
    negatives: Any,
    *,
    pos_power: Annotated[
        float, Option(minimum=0, not_with={"plm": "both set the ratio of positives to negatives"})
    ] = 0.0,
    **shared: Unpack[Shared],
) -> BinaryCrossEntropy:
    """Binary cross-entropy, one sigmoid for each class: the baseline.

    >>> cross_entropy([100, 300], [300, 100], pos_power=1.0).pos_weight
    tensor([3.0000, 0.3333])

    Args:
        positives: Known positives of each class in the training data, shape (C,).
        negatives: Known negatives of each class.
        pos_power: A class's positives weigh (negatives / positives)^pos_power. 1 is the usual
            `nn.BCEWithLogitsLoss(pos_weight=negatives / positives)`, 0.5 is milder.
        shared: `weight`, `per_sample` and `reduction`, as in `ElementwiseLoss`.

    Mind:
        With `pos_power`, outputs are not probabilities: logits are higher by pos_power · log(negatives /
        positives). The counts are those of the training split, even if `undersample` or `classaware` draws
        from it. Not together with `plm`, which sets this ratio itself.
    """
    weight = positive_weights(positives, negatives, power=pos_power) if pos_power else None
    return BinaryCrossEntropy(pos_weight=weight, **shared)
