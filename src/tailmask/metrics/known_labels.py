"""Checked inputs of all measures: labels that may be unknown, scores, thresholds; blocks to save memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmask._util.label_values import as_tensor, check_targets

__all__ = [
    "WIDE_BLOCK",
    "as_labels",
    "as_predictions",
    "as_scores",
    "as_thresholds",
    "blocks",
    "check_same_shape",
    "divide",
    "sort_rows",
]

# Temporary arrays have about this many numbers for a test set of any size, so they stay in the cache. Blocks
# of classes or of sample weights are wider, because each needs a pass over the test set.
BLOCK = 2**19
WIDE_BLOCK = 2**22


def as_labels(targets: Any) -> Tensor:
    """Targets (N, C) as int8: 1 present, 0 absent, −1 unknown (−1 or NaN); soft targets are cut at 0.5.

    >>> as_labels(torch.tensor([[1.0, 0.0, -1.0], [0.7, 0.2, torch.nan]]))
    tensor([[ 1,  0, -1],
            [ 1,  0, -1]], dtype=torch.int8)
    """
    tensor = as_tensor(targets)
    if tensor.ndim != 2:
        raise ValueError(
            f"targets must have shape (N, C), got {tuple(tensor.shape)}: make class indices one-hot"
        )
    check_targets(tensor)
    if not tensor.is_floating_point():
        return tensor.to(torch.int8)
    return tensor.ge(0.5).to(torch.int8).masked_fill_(~tensor.ge(0.0), -1)  # NaN ≥ 0 is false


def as_predictions(predictions: Tensor) -> Tensor:
    """Predictions as booleans; refuses values other than 0 and 1, such as probabilities.

    >>> as_predictions(torch.tensor([[1.0, 0.0]]))
    tensor([[ True, False]])
    """
    if predictions.dtype == torch.bool:
        return predictions
    strange = predictions[(predictions != 0) & (predictions != 1)]
    if len(strange):
        raise ValueError(
            f"predictions must be True or False, got {strange[0].item():g}: "
            "compare probabilities with a threshold first"
        )
    return predictions == 1


def as_thresholds(thresholds: Any, num_classes: int) -> Tensor:
    """The thresholds as a tensor, one for all classes () or one per class (C,), from 0 to 1.

    >>> as_thresholds([0.5, 0.25], 2)
    tensor([0.5000, 0.2500], dtype=torch.float64)
    """
    hint = "labels with at least this probability are predicted"
    values = as_tensor(thresholds, name="thresholds", hint=hint).to(torch.float64)
    if values.shape not in ((), (num_classes,)):
        raise ValueError(
            f"thresholds must be one number or of shape ({num_classes},), got {tuple(values.shape)}"
        )
    strange = values[~((values >= 0.0) & (values <= 1.0))]  # NaN is neither
    if len(strange):
        raise ValueError(f"thresholds must lie between 0 and 1, got {strange[0].item():g}: {hint}")
    return values


def as_scores(scores: Any) -> Tensor:
    """Scores (N, C) in float32 or float64; an infinite score becomes the largest finite number.

    >>> as_scores(torch.tensor([[0.5, -torch.inf]]))
    tensor([[ 5.0000e-01, -3.4028e+38]])
    """
    tensor = as_tensor(scores, name="scores", hint="give one number per sample and class")
    if tensor.ndim != 2:
        raise ValueError(f"scores must have shape (N, C), got {tuple(tensor.shape)}")
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.float32)
    if tensor.numel() == 0:
        return tensor
    low, high = tensor.aminmax()  # NaN if any score is
    if bool(low.isnan()):
        number = int(tensor.isnan().sum())
        raise ValueError(f"scores must be numbers, got {number} NaN: did the training diverge?")
    if bool(low.isinf()) or bool(high.isinf()):
        limits = torch.finfo(tensor.dtype)
        return tensor.clamp(limits.min, limits.max)
    return tensor


def check_same_shape(first: Tensor, targets: Tensor, *, name: str = "scores") -> None:
    """Refuse two tensors of different shapes."""
    if first.shape != targets.shape:
        shapes = f"{tuple(first.shape)} and {tuple(targets.shape)}"
        raise ValueError(f"{name} and targets must have the same shape, got {shapes}")


def blocks(total: int, width: int, *, size: int = BLOCK) -> Iterator[slice]:
    """Slices that cover `total` rows (or columns) of `width` numbers each, about `size` numbers at a time.

    >>> list(blocks(5, 10, size=20))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, size // max(1, width))
    return (slice(start, min(start + step, total)) for start in range(0, total, step))


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Quotient in float64, with 0/0 = 0.

    >>> divide(torch.tensor([1, 0]), torch.tensor([4, 0]))
    tensor([0.2500, 0.0000], dtype=torch.float64)
    """
    quotient = numerator.to(torch.float64) / denominator
    return quotient.masked_fill(denominator == 0, 0.0)


def sort_rows(values: Tensor) -> Tensor:
    """Each row in ascending order, without the permutation.

    >>> sort_rows(torch.tensor([[3.0, 1.0, 2.0]]))
    tensor([[1., 2., 3.]])
    """
    if values.device.type == "cpu":
        # NumPy sorts plain values with vector instructions, about eight times as fast as torch.sort, which
        # always sorts the indices, too.
        return torch.from_numpy(np.sort(values.numpy(), axis=1))
    return values.sort(dim=1).values
