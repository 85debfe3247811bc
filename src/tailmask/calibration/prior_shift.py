"""The prior shift: it corrects the outputs of a network that was trained with masked labels."""

from __future__ import annotations

from torch import Tensor

__all__ = ["apply_prior_shift"]


def apply_prior_shift(logits: Tensor, shift: Tensor) -> Tensor:
    """Logits that hold for the data's prevalence: `logits + shift`, with shift = log(r / r̄) of each class.

    `PartialLabelMasking.prior_shift()` gives the shift.

    >>> import torch
    >>> apply_prior_shift(torch.tensor([[0.0, 0.0]]), torch.tensor([0.1, 0.5]).log()).sigmoid()
    tensor([[0.0909, 0.3333]])
    """
    if shift.shape != logits.shape[-1:]:
        raise ValueError(
            f"the prior shift must have shape ({logits.shape[-1]},) as the logits have that many classes, "
            f"got {tuple(shift.shape)}"
        )
    return logits + shift.to(device=logits.device, dtype=logits.dtype)
