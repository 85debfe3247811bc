"""Which logits and targets can be used: known, allowed and finite."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tailmask.targets import require_indices

__all__ = ["Batch", "one_hot", "raise_faults", "read_batch"]


class Batch(NamedTuple):
    """Logits and targets (N, C) that can be computed with, and which of them mean something."""

    logits: Tensor
    targets: Tensor
    known: Tensor | None  # (N, C) boolean; None where all labels are known and are 0 or 1
    faults: Tensor | None  # (2,) how many logits are not finite, and how many targets are not allowed


def read_batch(logits: Tensor, targets: Tensor, *, guard: bool = True) -> Batch:
    """Set aside unknown labels (−1 or NaN), and count what nobody can have meant.

    A guarded batch sets that aside, too; otherwise it goes into the loss, as in torch's own losses. What is
    set aside gets the harmless value 0, so that nothing spreads from it through a product with zero.

    >>> batch = read_batch(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, -1.0]]))
    >>> batch.targets, batch.known
    (tensor([[1., 0.]]), tensor([[ True, False]]))
    """
    if _is_plain(logits, targets):
        return Batch(logits, targets, None, None)
    finite = logits.detach().isfinite()
    unknown = targets.isnan() | (targets == -1)
    allowed = (targets >= 0) & (targets <= 1)
    faults = torch.stack([(~finite).sum(), (~(allowed | unknown)).sum()])
    known = finite & allowed if guard else ~unknown
    return Batch(torch.where(known, logits, 0.0), torch.where(known, targets, 0.0), known, faults)


def one_hot(indices: Tensor, num_classes: int) -> Tensor:
    """Class indices (N, …) as rows of 0 and 1 with the class on axis 1; −1 makes a whole row unknown.

    An index out of range makes a row unknown as well, but for a 2, which `read_batch` counts as a fault:
    nothing has to wait for the device to look.

    >>> one_hot(torch.tensor([2, -1, -100]), 3)
    tensor([[ 0,  0,  1],
            [-1, -1, -1],
            [ 2, -1, -1]], dtype=torch.int8)
    """
    require_indices(indices)
    indices = indices.long()  # to torch, 255 in uint8 equals −1
    classes = torch.arange(num_classes, device=indices.device).view(-1, *[1] * (indices.ndim - 1))
    rows = (indices.unsqueeze(1) == classes).to(torch.int8)
    if indices.is_cpu and not torch.compiler.is_compiling() and indices.numel():
        lowest, highest = (bound.item() for bound in indices.aminmax())
        if lowest >= 0 and highest < num_classes:
            return rows
    outside = (indices < 0) | (indices >= num_classes)
    rows.masked_fill_(outside.unsqueeze(1), -1)
    rows[:, 0].masked_fill_(outside & (indices != -1), 2)
    return rows


def raise_faults(faults: Tensor) -> None:
    """Raise a ValueError where a batch, or an epoch of them, had bad values; waits for the device."""
    bad_logits, bad_targets = faults.tolist()
    if bad_logits:
        raise ValueError(
            f"{bad_logits} logits were NaN or infinite: "
            "lower the learning rate, or look for such values in the inputs"
        )
    if bad_targets:
        raise ValueError(
            f"{bad_targets} targets were neither 0, 1 or between nor unknown (-1 or NaN), "
            "nor class indices in range: check how the labels are encoded"
        )


def _is_plain(logits: Tensor, targets: Tensor) -> bool:
    """Whether all targets are 0 or 1 and all logits are finite, where looking costs no wait for a device."""
    if torch.compiler.is_compiling() or not logits.is_cpu:
        return False
    difference = torch.addcmul(targets, targets, targets, value=-1).flatten()  # t − t², zero for 0 and 1 only
    return difference.dot(difference).item() == 0 and math.isfinite(logits.detach().sum().item())
