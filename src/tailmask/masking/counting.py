"""Class counts from whatever holds the training targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

__all__ = ["count_classes", "one_hot"]

_LABEL_KEYS = ("labels", "targets", "label", "target")


def count_classes(targets: Any, *, num_classes: int | None = None) -> Tensor:
    """Negatives and positives of each class, shape (2, C); unknown labels (−1 or NaN) are neither.

    `targets` is a tensor or array of shape (N, C) or (N, C, …), class indices of shape (N,), a scipy sparse
    matrix, or a DataLoader whose batches end with the targets (or have them under "labels" or "targets").
    Soft labels count by their side of 0.5. `num_classes` is for class indices that may lack the last ones.

    >>> count_classes(torch.tensor([[1, 0], [1, 1], [0, -1]]))
    tensor([[1, 1],
            [2, 1]])
    >>> count_classes(torch.tensor([0, 0, 2]))
    tensor([[1, 3, 2],
            [2, 0, 1]])
    """
    if isinstance(targets, DataLoader):
        return _count_batches(targets, num_classes)
    if hasattr(targets, "tocoo"):
        return _count_sparse(targets)
    tensor = targets.detach() if isinstance(targets, Tensor) else torch.from_numpy(np.asarray(targets))
    if tensor.ndim == 0:
        raise ValueError("targets must have shape (N, C), or (N,) as class indices, got a single number")
    if tensor.ndim == 1:
        tensor = one_hot(tensor, num_classes)
    tensor = tensor.movedim(1, -1).flatten(0, -2)
    positive, negative = tensor >= 0.5, (tensor >= 0) & (tensor < 0.5)
    strange = ~((positive & (tensor <= 1)) | negative | tensor.isnan() | (tensor == -1))
    if strange.any():
        value = tensor[strange][0].item()
        raise ValueError(
            f"targets must be 0, 1, soft labels between, or unknown (-1 or NaN), got {value:g}: "
            "class indices go in as integers of shape (N,)"
        )
    return torch.stack([negative.sum(dim=0), positive.sum(dim=0)])


def one_hot(indices: Tensor, num_classes: int | None = None) -> Tensor:
    """Class indices (N, …) as rows of 0 and 1 with the class on axis 1; −1 makes a whole row unknown.

    >>> one_hot(torch.tensor([2, -1]), 3)
    tensor([[ 0,  0,  1],
            [-1, -1, -1]], dtype=torch.int8)
    """
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == torch.bool:
        raise ValueError(
            f"targets of shape (N,) are class indices and must be integers, got {indices.dtype}: "
            "labels of a single class go in with shape (N, 1)"
        )
    if num_classes is None:
        num_classes = int(indices.max()) + 1 if indices.numel() else 0
        if num_classes < 2:
            raise ValueError("class indices must name at least two classes: pass num_classes")
    # Compared rather than scattered: an index out of range becomes a row of zeros, not a fault on the device.
    classes = torch.arange(num_classes, device=indices.device).view(-1, *[1] * (indices.ndim - 1))
    rows = (indices.unsqueeze(1) == classes).to(torch.int8)
    return torch.where((indices == -1).unsqueeze(1), -1, rows)


def _count_batches(loader: DataLoader[Any], num_classes: int | None) -> Tensor:
    total: Tensor | None = None
    indices: list[Tensor] = []
    for batch in loader:
        targets = _targets_of(batch)
        if targets.ndim == 1 and num_classes is None:
            indices.append(targets)  # the largest index is known only at the end
            continue
        counts = count_classes(targets, num_classes=num_classes)
        total = counts if total is None else total + counts
    if indices:
        return count_classes(torch.cat(indices))
    if total is None:
        raise ValueError("the DataLoader gave no batch: is its data set empty?")
    return total


def _targets_of(batch: Any) -> Tensor:
    if isinstance(batch, Mapping):
        key = next((key for key in _LABEL_KEYS if key in batch), None)
        if key is None:
            raise ValueError(
                f"a batch that is a mapping must have its targets under one of {', '.join(_LABEL_KEYS)}, "
                f"got the keys {', '.join(map(str, batch))}"
            )
        return torch.as_tensor(batch[key])
    return torch.as_tensor(batch[-1] if isinstance(batch, (tuple, list)) else batch)


def _count_sparse(targets: Any) -> Tensor:
    entries = targets.tocoo()
    if hasattr(entries, "sum_duplicates"):
        entries.sum_duplicates()
    num_samples, num_classes = entries.shape
    # What is not stored is a negative, so only the stored entries need a look.
    stored = np.asarray(entries.data, dtype=np.float64)
    strange = ~(((stored >= 0) & (stored <= 1)) | np.isnan(stored) | (stored == -1))
    if strange.any():
        raise ValueError(
            "sparse targets must hold 0, 1, soft labels between, or unknown (-1 or NaN), "
            f"got {stored[strange][0]:g}"
        )
    known = stored >= 0
    positives = np.bincount(entries.col[known & (stored >= 0.5)], minlength=num_classes)
    unknown = np.bincount(entries.col[~known], minlength=num_classes)
    return torch.from_numpy(np.stack([num_samples - positives - unknown, positives]).astype(np.int64))
