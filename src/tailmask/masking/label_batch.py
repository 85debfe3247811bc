"""Batches in the form that the criterion uses: shape (N, C), with unknown and invalid labels marked."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tailmask._util.label_values import require_indices

__all__ = ["LabelBatch", "one_hot", "raise_faults", "read", "read_batch"]


class LabelBatch(NamedTuple):
    """Logits and targets (N, C) of a batch, which labels are known, and how many values are invalid."""

    logits: Tensor
    targets: Tensor
    known: Tensor | None  # (N, C) boolean; None if all labels are known and are 0 or 1
    faults: Tensor | None  # (2,) number of logits that are not finite, and of targets that are not allowed


def read(logits: Tensor, targets: Tensor, *, num_classes: int, guard: bool = True) -> LabelBatch:
    """The batch of logits (N, C, …) and targets, which have the same shape or are class indices (N, …).

    Half precision becomes float32. `read_batch` explains `guard`.

    >>> read(torch.zeros(2, 3), torch.tensor([2, 0]), num_classes=3).targets
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if logits.ndim < 2 or logits.shape[1] != num_classes:
        raise ValueError(
            f"logits must have shape (N, {num_classes}), got {tuple(logits.shape)}: "
            "did the class counts come from another data set?"
        )
    outside = None
    if targets.ndim == logits.ndim - 1 and num_classes > 1:
        targets, outside = one_hot(targets, num_classes)
    if targets.shape != logits.shape:
        raise ValueError(
            f"targets must have the logits' shape {tuple(logits.shape)}, got {tuple(targets.shape)}"
        )
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    if targets.dtype != logits.dtype:
        targets = targets.to(logits.dtype)
    if logits.ndim > 2:
        logits, targets = (each.movedim(1, -1).flatten(0, -2) for each in (logits, targets))
    return read_batch(logits, targets, outside=outside, guard=guard)


def read_batch(
    logits: Tensor, targets: Tensor, *, outside: Tensor | None = None, guard: bool = True
) -> LabelBatch:
    """The batch with unknown labels (−1 or NaN) left out and invalid values counted.

    With `guard` invalid values are left out too; otherwise they go into the loss, as in torch's own losses. A
    value that is left out becomes 0, because the product of a NaN with zero is NaN. `outside` marks class
    indices out of range, which `one_hot` has made unknown.

    >>> batch = read_batch(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, -1.0]]))
    >>> batch.targets, batch.known
    (tensor([[1., 0.]]), tensor([[ True, False]]))
    """
    if outside is None and _is_plain(logits, targets):
        return LabelBatch(logits, targets, None, None)
    finite = logits.detach().isfinite()
    unknown = targets.isnan() | (targets == -1)
    allowed = (targets >= 0) & (targets <= 1)
    bad_targets = (~(allowed | unknown)).sum()
    if outside is not None:
        bad_targets = bad_targets + outside.sum()
    faults = torch.stack([(~finite).sum(), bad_targets])
    known = finite & allowed if guard else ~unknown
    return LabelBatch(torch.where(known, logits, 0.0), torch.where(known, targets, 0.0), known, faults)


def one_hot(indices: Tensor, num_classes: int) -> tuple[Tensor, Tensor | None]:
    """Class indices (N, …) as rows of 0 and 1 with the class on axis 1, and a mask of indices out of range.

    An index of −1 or out of range makes the whole row −1, unknown. The mask has the shape of the indices. It
    is None if all indices are known to be valid; they are only checked if that needs no wait for a device.

    >>> one_hot(torch.tensor([2, -1, -100]), 3)
    (tensor([[ 0,  0,  1],
            [-1, -1, -1],
            [-1, -1, -1]], dtype=torch.int8), tensor([False, False,  True]))
    """
    require_indices(indices)
    indices = indices.long()  # in torch, 255 in uint8 equals −1
    classes = torch.arange(num_classes, device=indices.device).view(-1, *[1] * (indices.ndim - 1))
    rows = (indices.unsqueeze(1) == classes).to(torch.int8)
    if indices.is_cpu and not torch.compiler.is_compiling() and indices.numel():
        lowest, highest = (bound.item() for bound in indices.aminmax())
        if lowest >= 0 and highest < num_classes:
            return rows, None
    outside = (indices < 0) | (indices >= num_classes)
    return rows.masked_fill_(outside.unsqueeze(1), -1), outside & (indices != -1)


def raise_faults(faults: Tensor) -> None:
    """Raise a ValueError if a batch or an epoch had invalid values; waits for the device."""
    bad_logits, bad_targets = faults.tolist()
    if bad_logits:
        raise ValueError(
            f"{bad_logits} logits were NaN or infinite: "
            "lower the learning rate, or look for such values in the inputs"
        )
    if bad_targets:
        raise ValueError(
            "targets must be from 0 to 1, unknown (-1 or NaN), or class indices in range, "
            f"got {bad_targets} others: check how the labels are encoded"
        )


def _is_plain(logits: Tensor, targets: Tensor) -> bool:
    """True if all targets are 0 or 1 and all logits finite; False if the check would wait for a device."""
    if torch.compiler.is_compiling() or not logits.is_cpu:
        return False
    difference = torch.addcmul(targets, targets, targets, value=-1).flatten()  # t − t², zero for 0 and 1 only
    return difference.dot(difference).item() == 0 and math.isfinite(logits.detach().sum().item())
