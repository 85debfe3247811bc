"""Which samples have which label: targets turned into one list of samples for each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Integers", "Members", "read_members"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Members:
    """The samples of each class: those of class c are samples[starts[c] : starts[c + 1]].

    >>> members = Members.group(np.array([1, 0, 1]), np.array([5, 6, 7]), num_classes=3)
    >>> members.sizes
    array([1, 2, 0])
    >>> members.of(1)
    array([5, 7])
    """

    starts: Integers  # (C + 1,)
    samples: Integers

    @classmethod
    def group(cls, classes: Integers, samples: Integers, num_classes: int) -> Members:
        """Members from pairs of a class and one of its samples."""
        starts = np.concatenate([[0], np.bincount(classes, minlength=num_classes).cumsum()])
        return cls(starts, samples[np.argsort(classes, kind="stable")])

    @property
    def sizes(self) -> Integers:
        """Number of samples of each class, shape (C,)."""
        return np.diff(self.starts)

    def of(self, index: int) -> Integers:
        """Samples of one class."""
        return self.samples[self.starts[index] : self.starts[index + 1]]

    def count(self, times: Integers) -> Integers:
        """How often each class is met when sample i is met times[i] times, shape (C,)."""
        return np.diff(np.concatenate([[0], times[self.samples].cumsum()])[self.starts])


def read_members(targets: Any, num_classes: int | None = None) -> tuple[int, Members, Members]:
    """Number of samples, and for each class the samples with a positive and those with an unknown label.

    `targets` are a tensor or array (N, C), a scipy sparse matrix (N, C), or class indices (N,), of
    `num_classes` classes if the last ones may be missing. Soft labels count by their side of 0.5.

    >>> number, positives, unknown = read_members(torch.tensor([[1, 0], [1, -1], [0, 1]]))
    >>> positives.of(0), unknown.of(1)
    (array([0, 1]), array([1]))
    """
    if hasattr(targets, "tocoo"):
        entries = targets.tocoo(copy=True)
        entries.sum_duplicates()
        number, num_classes = entries.shape
        samples, classes = entries.row.astype(np.int64), entries.col.astype(np.int64)
        values = np.asarray(entries.data, dtype=np.float64)
    else:
        tensor = torch.as_tensor(targets).detach().cpu()
        number = len(tensor)
        if tensor.ndim == 1:
            return number, *_read_indices(tensor, num_classes)
        if tensor.ndim != 2:
            raise ValueError(f"targets must have shape (N, C) or (N,), got {tuple(tensor.shape)}")
        num_classes = tensor.shape[1]
        stored = tensor != 0
        samples, classes = (axis.numpy() for axis in stored.nonzero(as_tuple=True))
        values = tensor[stored].to(torch.float64).numpy()
    unknown, positive = np.isnan(values) | (values == -1), values >= 0.5
    strange = values[~unknown & ((values < 0) | (values > 1))]
    if len(strange):
        raise ValueError(
            "targets must be 0, 1, soft labels between, or unknown (-1 or NaN), "
            f"got {strange[0]:g}: class indices go in as integers of shape (N,)"
        )
    return (
        number,
        Members.group(classes[positive], samples[positive], num_classes),
        Members.group(classes[unknown], samples[unknown], num_classes),
    )


def _read_indices(indices: Tensor, num_classes: int | None) -> tuple[Members, Members]:
    if indices.is_floating_point() or indices.dtype == torch.bool:
        raise ValueError(f"targets of shape (N,) must be integer class indices, got {indices.dtype}")
    classes = indices.to(torch.int64).numpy()
    highest = int(classes.max(initial=-1))
    num_classes = highest + 1 if num_classes is None else num_classes
    if highest >= num_classes or classes.min(initial=-1) < -1:
        raise ValueError(
            f"class indices must lie in 0 … {num_classes - 1}, or be -1 where unknown, "
            f"got {classes.min()} … {highest}"
        )
    samples, known = np.arange(len(classes)), classes >= 0
    missing = samples[~known]  # unknown in every class
    return (
        Members.group(classes[known], samples[known], num_classes),
        Members(np.arange(num_classes + 1) * len(missing), np.tile(missing, num_classes)),
    )
