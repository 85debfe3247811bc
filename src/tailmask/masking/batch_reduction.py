"""Reduction of the losses of single labels to the loss of a batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tailmask._util.reduction import Reduction
from tailmask.masking.label_batch import LabelBatch

__all__ = ["Loss", "reduced_loss", "sample_column", "takes_prior_shift"]

Loss = Callable[[Tensor, Tensor], Tensor]  # logits, targets → one value per label


def reduced_loss(
    loss: Loss | None, batch: LabelBatch, weight: Tensor | None, *, reduction: Reduction, shape: torch.Size
) -> Tensor:
    """Loss of a batch's known labels, each times its weight; `shape` is the original shape of the logits.

    If `loss` is None, it is binary cross-entropy.

    >>> batch = LabelBatch(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]), torch.tensor([[True, False]]), None)
    >>> reduced_loss(None, batch, None, reduction="mean", shape=torch.Size([1, 2]))
    tensor(0.6931)
    """
    if batch.known is not None:
        known = batch.known.to(batch.logits.dtype)
        weight = known if weight is None else weight * known
    if reduction == "none":
        values = _losses(loss, batch, weight, reduction="none")
        return values.view(shape[0], *shape[2:], shape[1]).movedim(-1, 1)
    if reduction == "mean":
        mean = _losses(loss, batch, weight, reduction="mean")
        if batch.known is None:
            return mean
        # The mean over the known labels, not over the kept ones: Eq. 2 does not renormalise.
        return mean * (batch.known.numel() / batch.known.sum().clamp(min=1).to(mean.dtype))
    total = _losses(loss, batch, weight, reduction="sum")
    return total if reduction == "sum" else total / shape[0]


def sample_column(sample_weight: Tensor, shape: torch.Size) -> Tensor:
    """Sample weights (N,) as a column (rows, 1), for logits of the given shape flattened to rows.

    >>> sample_column(torch.tensor([1.0, 2.0]), torch.Size([2, 5]))
    tensor([[1.],
            [2.]])
    """
    if sample_weight.shape != shape[:1]:
        raise ValueError(f"sample_weight must have shape ({shape[0]},), got {tuple(sample_weight.shape)}")
    return sample_weight.to(torch.float32).repeat_interleave(shape[2:].numel()).unsqueeze(1)


def takes_prior_shift(loss: Loss | None) -> bool:
    """True if a shift of the logits undoes a ratio: for cross-entropy with equal weights for both labels.

    >>> takes_prior_shift(None), takes_prior_shift(nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0])))
    (True, False)
    """
    return (
        loss is None
        or (isinstance(loss, nn.BCEWithLogitsLoss) and loss.pos_weight is None)
        or bool(getattr(loss, "supports_prior_shift", False))
    )


def _losses(loss: Loss | None, batch: LabelBatch, weight: Tensor | None, *, reduction: str) -> Tensor:
    if loss is None:
        return F.binary_cross_entropy_with_logits(
            batch.logits, batch.targets, weight=weight, reduction=reduction
        )
    values = loss(batch.logits, batch.targets)
    if values.shape != batch.logits.shape:
        raise ValueError(
            f"the loss must return one value per label, shape {tuple(batch.logits.shape)}, "
            f'got {tuple(values.shape)}: pass reduction="none" to it'
        )
    if weight is not None:
        values = values * weight
    return values if reduction == "none" else getattr(values, reduction)()
