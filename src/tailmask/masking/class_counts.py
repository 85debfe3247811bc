"""Class counts from tensors, arrays, sparse matrices and DataLoaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tailmask._util.label_values import as_tensor, check_num_classes, check_targets, read_indices, read_sparse
from tailmask._util.messages import listing

__all__ = ["check_counts", "count_classes", "stack_counts"]

_LABEL_KEYS = ("labels", "targets", "label", "target")


def count_classes(targets: Any, *, num_classes: int | None = None) -> Tensor:
    """Negatives and positives of each class, shape (2, C); unknown labels (−1 or NaN) do not count.

    `targets` is a tensor or array of shape (N, C) or (N, C, …), class indices of shape (N,), a scipy sparse
    matrix, or a DataLoader whose batches end with the targets (or have them under "labels" or "targets").
    Soft labels count by their side of 0.5. `num_classes` is for class indices: the last classes may be
    missing in them.

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
        return _count_sparse(targets, num_classes)
    tensor = as_tensor(targets)
    if tensor.ndim == 0:
        raise ValueError("targets must have shape (N, C), or (N,) as class indices, got a single number")
    if tensor.ndim == 1:
        return _count_indices(tensor, num_classes)
    check_num_classes(num_classes, found=tensor.shape[1])
    tensor = tensor.movedim(1, -1).flatten(0, -2)
    check_targets(tensor, hint="pass class indices as integers of shape (N,)")
    positives = (tensor >= 0.5).sum(dim=0)
    return torch.stack([(tensor >= 0).sum(dim=0) - positives, positives])


def _count_indices(targets: Tensor, num_classes: int | None) -> Tensor:
    indices, number = read_indices(targets, num_classes)
    if num_classes is None and number < 2:
        raise ValueError(f"class indices must name at least two classes, got {number}: pass num_classes")
    known = indices[indices >= 0]
    positives = torch.bincount(known, minlength=number)
    return torch.stack([len(known) - positives, positives])


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
        raise ValueError("the DataLoader must have at least one batch, got none: is its data set empty?")
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


def _count_sparse(targets: Any, num_classes: int | None) -> Tensor:
    (num_samples, number), _, classes, values = read_sparse(targets)
    check_num_classes(num_classes, found=number)
    # Entries that are not stored are negatives, so only the stored ones need a check.
    check_targets(torch.from_numpy(values), hint="pass class indices as integers of shape (N,)")
    positives = np.bincount(classes[values >= 0.5], minlength=number)
    unknown = np.bincount(classes[~(values >= 0)], minlength=number)
    return torch.from_numpy(np.stack([num_samples - positives - unknown, positives]).astype(np.int64))


def stack_counts(positives: Any, negatives: Any) -> Tensor:
    """Class counts of shape (2, C) from the numbers of positives and of negatives, each (C,).

    >>> stack_counts([10, 1], [40, 49])
    tensor([[40, 49],
            [10,  1]])
    """
    hint = "give the number of samples of each class"
    positives = as_tensor(positives, name="positives", hint=hint)
    negatives = as_tensor(negatives, name="negatives", hint=hint)
    if positives.ndim != 1 or positives.shape != negatives.shape:
        raise ValueError(
            f"positives and negatives must both have shape (C,), got {tuple(positives.shape)} "
            f"and {tuple(negatives.shape)}"
        )
    return torch.stack([negatives.to(positives.device), positives])


def check_counts(class_counts: Any) -> Tensor:
    """Class counts (2, C) as int64; a ValueError for values that are not counts, such as shares.

    >>> check_counts(torch.tensor([[40.0, 49.0], [10.0, 1.0]]))
    tensor([[40, 49],
            [10,  1]])
    """
    class_counts = as_tensor(class_counts, name="class_counts", hint="give negatives and positives, (2, C)")
    if class_counts.ndim != 2 or class_counts.shape[0] != 2 or not class_counts.shape[1]:
        raise ValueError(f"class_counts must have shape (2, C), got {tuple(class_counts.shape)}")
    whole: Tensor = class_counts.to(torch.int64)
    strange = class_counts[(whole != class_counts) | (whole < 0)].tolist()
    if strange:
        values = listing(f"{value:g}" for value in strange)
        raise ValueError(
            f"class counts must be whole numbers of 0 or more, got {values}: "
            "multiply shares by the number of samples"
        )
    return whole
