"""Measures with one value per sample; NaN marks a sample without a value, and means leave it out."""

from __future__ import annotations

import torch
from torch import Tensor

from tailmask.metrics.known_labels import (
    as_labels,
    as_predictions,
    blocks,
    check_same_shape,
    divide,
)

__all__ = ["exact_match", "mean_over_samples", "sample_f1"]


def exact_match(predictions: Tensor, targets: Tensor) -> Tensor:
    """1 for each sample whose known labels are all predicted correctly, else 0 (0-1 accuracy), shape (N,).

    NaN for a sample without a known label.

    >>> predictions = torch.tensor([[True, False], [True, True], [True, True]])
    >>> exact_match(predictions, torch.tensor([[1, 0], [1, 0], [1, -1]]))
    tensor([1., 0., 1.])
    """
    labels, predictions = as_labels(targets), as_predictions(predictions)
    check_same_shape(predictions, labels, name="predictions")
    values = torch.empty(len(labels), dtype=torch.float32, device=labels.device)
    for rows in blocks(*labels.shape):
        known = labels[rows] >= 0
        wrong = known & (predictions[rows] != (labels[rows] == 1))
        values[rows] = (~wrong.any(dim=1)).to(values.dtype).masked_fill(~known.any(dim=1), torch.nan)
    return values


def sample_f1(predictions: Tensor, targets: Tensor) -> Tensor:
    """F1 of the labels of each sample, shape (N,); 0 if no label is present and none is predicted.

    NaN for a sample without a known label.

    >>> predictions = torch.tensor([[True, True, False], [False, False, False]])
    >>> sample_f1(predictions, torch.tensor([[1, 0, 0], [0, 0, 0]]))
    tensor([0.6667, 0.0000], dtype=torch.float64)
    """
    labels, predictions = as_labels(targets), as_predictions(predictions)
    check_same_shape(predictions, labels, name="predictions")
    values = torch.empty(len(labels), dtype=torch.float64, device=labels.device)
    for rows in blocks(*labels.shape):
        known, present = labels[rows] >= 0, labels[rows] == 1
        predicted = predictions[rows] & known
        hits = torch.count_nonzero(predicted & present, dim=1)
        sizes = torch.count_nonzero(predicted, dim=1) + torch.count_nonzero(present, dim=1)
        values[rows] = divide(2 * hits, sizes).masked_fill(~known.any(dim=1), torch.nan)
    return values


def mean_over_samples(values: Tensor) -> Tensor:
    """Means (M,) of measures (N, M) over the samples that are not NaN; NaN if no sample is left.

    >>> mean_over_samples(torch.tensor([[1.0], [0.0], [torch.nan]]))
    tensor([0.5000], dtype=torch.float64)
    """
    return values.to(torch.float64).nanmean(dim=0)
