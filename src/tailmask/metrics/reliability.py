"""Reliability of probabilities: calibration error and Brier score of each class."""

from __future__ import annotations

import torch
from torch import Tensor

from tailmask._util.label_values import as_tensor, check_probabilities
from tailmask.metrics.known_labels import as_labels, blocks, check_same_shape

__all__ = ["brier_score", "calibration_error"]


def calibration_error(probabilities: Tensor, targets: Tensor, *, num_bins: int = 15) -> tuple[Tensor, Tensor]:
    """Expected calibration error (ECE) of each class, (C,), and of all labels pooled, one value.

    Probabilities fall into bins of equal width. The error is the mean gap between a bin's mean probability
    and its share of present labels, weighted by the number of labels in the bin (Guo et al., 2017, for one
    class against the rest). Unknown labels are left out; without a known label the error is NaN.

    >>> probabilities = torch.tensor([[0.9], [0.9], [0.1], [0.1]])
    >>> calibration_error(probabilities, torch.tensor([[1], [0], [0], [0]]))  # (2 · |0.9 − ½| + 2 · 0.1) / 4
    (tensor([0.2500], dtype=torch.float64), tensor(0.2500, dtype=torch.float64))
    """
    probabilities, labels = _read(probabilities, targets)
    num_samples, num_classes = labels.shape
    gaps = torch.zeros(num_classes * num_bins, dtype=torch.float64, device=labels.device)
    known = torch.zeros(num_classes, dtype=torch.int64, device=labels.device)
    offsets = torch.arange(0, num_classes * num_bins, num_bins, device=labels.device)
    for rows in blocks(num_samples, num_classes):
        mask = labels[rows] >= 0
        index = (probabilities[rows] * num_bins).to(torch.int64).clamp_(0, num_bins - 1).add_(offsets)
        gap = (probabilities[rows].to(torch.float64) - labels[rows]).masked_fill_(~mask, 0.0)
        gaps += torch.bincount(index.flatten(), gap.flatten(), minlength=len(gaps))
        known += torch.count_nonzero(mask, dim=0)
    # n_b / n · |mean p − mean y| is |Σ p − Σ y| / n, so a bin only keeps its sum of gaps.
    gaps = gaps.view(num_classes, num_bins)
    return gaps.abs().sum(dim=1) / known, gaps.sum(dim=0).abs().sum() / known.sum()


def brier_score(probabilities: Tensor, targets: Tensor) -> Tensor:
    """Mean squared difference between probability and label of each class, known labels only, shape (C,).

    NaN for a class without a known label.

    >>> brier_score(torch.tensor([[0.9], [0.2]]), torch.tensor([[1], [0]]))
    tensor([0.0250], dtype=torch.float64)
    """
    probabilities, labels = _read(probabilities, targets)
    total = torch.zeros(labels.shape[1], dtype=torch.float64, device=labels.device)
    known = torch.zeros(labels.shape[1], dtype=torch.int64, device=labels.device)
    for rows in blocks(*labels.shape):
        mask = labels[rows] >= 0
        squares = (probabilities[rows] - labels[rows]).square_().masked_fill_(~mask, 0.0)
        total += squares.sum(dim=0, dtype=torch.float64)
        known += torch.count_nonzero(mask, dim=0)
    return total / known


def _read(probabilities: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    labels = as_labels(targets)
    probabilities = as_tensor(probabilities, name="probabilities")
    check_same_shape(probabilities, labels, name="probabilities")
    check_probabilities(probabilities)
    return probabilities, labels
