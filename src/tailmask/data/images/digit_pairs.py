"""Pairs of digits on one canvas, as in the paper's MultiMNIST: shifted, then superimposed by the maximum."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask.data.public.portable_draws import Draws

__all__ = ["one_of_each_other", "place", "superimpose", "union"]


def place(digits: Tensor, corner: Tensor, size: int) -> Tensor:
    """Digits (B, h, w) on black canvases (B, size, size), the top left of each at its `corner` (B, 2).

    Parts outside of the canvas are cut off.

    >>> place(torch.tensor([[[1, 2], [3, 4]]]), torch.tensor([[-1, 1]]), 3)
    tensor([[[0, 3, 4],
             [0, 0, 0],
             [0, 0, 0]]])
    """
    number, height, width = digits.shape
    framed = torch.nn.functional.pad(digits, (0, 1, 0, 1))  # the last row and column are the black outside
    rows = torch.arange(size) - corner[:, :1]  # (B, size), as rows of the digit
    columns = torch.arange(size) - corner[:, 1:]
    rows = rows.where((rows >= 0) & (rows < height), height)
    columns = columns.where((columns >= 0) & (columns < width), width)
    return framed[torch.arange(number)[:, None, None], rows[:, :, None], columns[:, None, :]]


def superimpose(digits: Tensor, pairs: Tensor, corners: Tensor, *, size: int) -> Tensor:
    """Images (B, 1, size, size): the maximum of two digits, `pairs` (B, 2) at their `corners` (B, 2, 2)."""
    first = place(digits[pairs[:, 0]], corners[:, 0], size)
    second = place(digits[pairs[:, 1]], corners[:, 1], size)
    return torch.maximum(first, second)[:, None]


def union(labels: NDArray[np.int64], pairs: NDArray[np.int64], num_classes: int = 10) -> Tensor:
    """Targets (N, C) int8 of the pairs: the labels of both digits. Equal digits give one label."""
    targets = torch.zeros(len(pairs), num_classes, dtype=torch.int8)
    return targets.scatter_(1, torch.from_numpy(labels[pairs]), 1)


def one_of_each_other(labels: NDArray[np.int64], draws: Draws, num_classes: int = 10) -> NDArray[np.int64]:
    """Pairs (N · (C − 1), 2) of every digit with one random digit of each other class.

    >>> one_of_each_other(np.array([0, 0, 1]), Draws(0), num_classes=2)
    array([[2, 1],
           [0, 2],
           [1, 2]])
    """
    pairs = []
    for partner in range(num_classes):
        first = np.flatnonzero(labels != partner)
        choices = np.flatnonzero(labels == partner)
        pairs.append(np.stack([first, choices[draws.below(len(choices), len(first))]], axis=1))
    return np.concatenate(pairs)
