"""Reads and checks labels from users: rows of labels, class indices, probabilities."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = [
    "IGNORED",
    "Entries",
    "as_tensor",
    "check_num_classes",
    "check_probabilities",
    "check_targets",
    "read_indices",
    "read_sparse",
    "require_indices",
]

# The value that torch's cross-entropy and Hugging Face's Trainer use for "no label".
IGNORED = -100
_REPLACE_IGNORED = f"mark unknown labels with -1: targets.masked_fill(targets == {IGNORED}, -1)"

# Torch cannot compare these types.
_WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def as_tensor(
    values: Any, *, name: str = "targets", hint: str = "encode labels as 0 and 1, or as class indices"
) -> Tensor:
    """A tensor, array or nested list as a tensor; a ValueError for other values, such as class names.

    >>> as_tensor([[1, 0], [0, 1]])
    tensor([[1, 0],
            [0, 1]])
    """
    if isinstance(values, Tensor):
        tensor = values.detach()
    else:
        try:
            # Torch supports no negative strides and no foreign byte order, and warns about read-only memory.
            array = np.require(values, requirements=("C", "W"))
            array = array.astype(array.dtype.newbyteorder("="), copy=False)
        except ValueError:
            raise ValueError(f"{name} must be numbers, got rows of different lengths: {hint}") from None
        try:
            tensor = torch.from_numpy(array)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be numbers, got an array of {array.dtype}: {hint}") from None
    if tensor.is_complex():
        raise ValueError(f"{name} must be numbers, got {tensor.dtype}: {hint}")
    return tensor.to(torch.int64) if tensor.dtype in _WIDE_UNSIGNED else tensor


class Entries(NamedTuple):
    """The stored entries of a sparse target matrix; all others are zero."""

    shape: tuple[int, int]  # N, C
    samples: NDArray[np.int64]
    classes: NDArray[np.int64]
    values: NDArray[np.float64]


def read_sparse(matrix: Any) -> Entries:
    """The stored entries of a scipy sparse matrix (N, C), each position once.

    >>> import scipy.sparse
    >>> read_sparse(scipy.sparse.coo_array(([1, 1], ([0, 2], [1, 0])), shape=(3, 2))).samples
    array([0, 2])
    """
    entries = matrix.tocoo(copy=True)
    entries.sum_duplicates()
    samples, classes = (axis.astype(np.int64) for axis in (entries.row, entries.col))
    return Entries(entries.shape, samples, classes, np.asarray(entries.data, dtype=np.float64))


def check_targets(targets: Tensor, *, hint: str = "check how the labels are encoded") -> None:
    """Raise a ValueError unless all targets are from 0 to 1 or unknown (−1 or NaN); waits for the device.

    >>> check_targets(torch.tensor([1.0, 0.3, -1.0, torch.nan]))
    >>> check_targets(torch.tensor([1.0, 5.0]))
    Traceback (most recent call last):
    ValueError: targets must be 0, 1, soft labels between, or unknown (-1 or NaN), got 5: check how ...
    """
    if not targets.numel():
        return
    lowest, highest = (bound.item() for bound in targets.aminmax())  # both NaN if any target is
    if lowest >= 0 and highest <= 1:
        return
    # The sign is checked first: in torch, 255 in uint8 equals −1.
    strange = targets[(targets > 1) | ((targets < 0) & (targets != -1))]
    if len(strange):
        value = strange[0].item()
        raise ValueError(
            "targets must be 0, 1, soft labels between, or unknown (-1 or NaN), "
            f"got {value:g}: {_REPLACE_IGNORED if value == IGNORED else hint}"
        )


def check_probabilities(probabilities: Tensor, *, hint: str = "apply the sigmoid to logits first") -> None:
    """Raise a ValueError unless all probabilities are from 0 to 1; waits for the device.

    >>> check_probabilities(torch.tensor([2.0, -1.0]))
    Traceback (most recent call last):
    ValueError: probabilities must lie between 0 and 1, got -1: apply the sigmoid to logits first
    """
    if not probabilities.numel():
        return
    lowest, highest = probabilities.aminmax()  # both NaN if any is, and NaN fails both comparisons
    if not bool((lowest >= 0.0) & (highest <= 1.0)):
        strange = (highest if bool(lowest >= 0.0) else lowest).item()
        raise ValueError(f"probabilities must lie between 0 and 1, got {strange:g}: {hint}")


def require_indices(indices: Tensor) -> None:
    """Raise a ValueError if class indices are not integers.

    >>> require_indices(torch.tensor([2, -1]))
    """
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == torch.bool:
        raise ValueError(
            f"targets of shape (N,) are class indices and must be integers, got {indices.dtype}: "
            "pass labels of a single class with shape (N, 1)"
        )


def read_indices(indices: Tensor, num_classes: int | None) -> tuple[Tensor, int]:
    """Class indices as int64, and the number of classes; if None is given, that is the highest index plus 1.

    Raises a ValueError for indices out of range; −1 means unknown. The check waits for the device. It is
    skipped under torch.compile if `num_classes` is given, because reading values would break the graph.

    >>> read_indices(torch.tensor([2, -1], dtype=torch.int8), None)
    (tensor([ 2, -1]), 3)
    """
    require_indices(indices)
    check_num_classes(num_classes)
    indices = indices.to(torch.int64)
    if num_classes is not None and torch.compiler.is_compiling():
        return indices, num_classes
    lowest, highest = (int(bound) for bound in indices.aminmax()) if indices.numel() else (-1, -1)
    num_classes = highest + 1 if num_classes is None else num_classes
    if lowest < -1 or highest >= num_classes:
        remedy = f": {_REPLACE_IGNORED}" if lowest == IGNORED else ""
        raise ValueError(
            f"class indices must be from 0 to {num_classes - 1}, or -1 if unknown, "
            f"got {lowest} to {highest}{remedy}"
        )
    return indices, num_classes


def check_num_classes(num_classes: Any, found: int | None = None) -> None:
    """Raise a ValueError if `num_classes` is not a positive integer or differs from `found`.

    >>> check_num_classes(3, found=3)
    """
    if num_classes is None:
        return
    if not isinstance(num_classes, Integral) or num_classes < 1:
        raise ValueError(f"num_classes must be a whole number above 0, got {num_classes!r}")
    if found is not None and found != num_classes:
        raise ValueError(
            f"num_classes must be the number of columns of the targets, {found}, got {num_classes}: "
            "leave it out, it is only needed for class indices"
        )
