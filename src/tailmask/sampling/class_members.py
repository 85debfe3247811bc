"""Which samples have which label: targets turned into one list of samples for each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.label_values import as_tensor, check_num_classes, check_targets, read_indices, read_sparse

__all__ = ["ClassMembers", "Integers", "read_members"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class ClassMembers:
    """The samples of each class: those of class c are samples[starts[c] : starts[c + 1]].

    >>> members = ClassMembers.group(np.array([1, 0, 1]), np.array([5, 6, 7]), num_classes=3)
    >>> members.sizes
    array([1, 2, 0])
    >>> members.of(1)
    array([5, 7])
    """

    starts: Integers  # (C + 1,)
    samples: Integers

    @classmethod
    def group(cls, classes: Integers, samples: Integers, num_classes: int) -> ClassMembers:
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
        """The number of positives of each class (C,) if sample i is used times[i] times."""
        return np.diff(np.concatenate([[0], times[self.samples].cumsum()])[self.starts])


def read_members(targets: Any, num_classes: int | None = None) -> tuple[int, ClassMembers, ClassMembers]:
    """Number of samples, and for each class the samples with a positive and those with an unknown label.

    `targets` are a tensor or array (N, C), a scipy sparse matrix (N, C), or class indices (N,), of
    `num_classes` classes if the last ones may be missing. Soft labels count by their side of 0.5.

    >>> number, positives, unknown = read_members(torch.tensor([[1, 0], [1, -1], [0, 1]]))
    >>> positives.of(0), unknown.of(1)
    (array([0, 1]), array([1]))
    """
    if hasattr(targets, "tocoo"):
        (number, found), samples, classes, values = read_sparse(targets)
    else:
        tensor = as_tensor(targets).cpu()
        if tensor.ndim == 1:
            return len(tensor), *_read_indices(tensor, num_classes)
        if tensor.ndim != 2:
            raise ValueError(f"targets must have shape (N, C) or (N,), got {tuple(tensor.shape)}")
        number, found = tensor.shape
        stored = tensor != 0
        samples, classes = (axis.numpy() for axis in stored.nonzero(as_tuple=True))
        values = tensor[stored].to(torch.float64).numpy()
    check_num_classes(num_classes, found)
    check_targets(torch.from_numpy(values), hint="pass class indices as integers of shape (N,)")
    unknown, positive = ~(values >= 0), values >= 0.5
    return (
        number,
        ClassMembers.group(classes[positive], samples[positive], found),
        ClassMembers.group(classes[unknown], samples[unknown], found),
    )


def _read_indices(targets: Tensor, num_classes: int | None) -> tuple[ClassMembers, ClassMembers]:
    indices, number = read_indices(targets, num_classes)
    classes = indices.numpy()
    samples, known = np.arange(len(classes)), classes >= 0
    missing = samples[~known]  # unknown in every class
    return (
        ClassMembers.group(classes[known], samples[known], number),
        ClassMembers(np.arange(number + 1) * len(missing), np.tile(missing, number)),
    )
