"""Influence of each sample on average precision: the derivative with respect to the sample's weight."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["average_precision_influence"]


def average_precision_influence(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Derivatives (N, C) of each class's average precision by the sample weights, and its values (C,).

    With h_i present labels and n_i labels at or above the score of present label i, and P present labels,
    AP = 1/P Σ h_i / n_i. One more unit of weight on sample j adds −h_i / n_i² to every term i that scores no
    higher than j. If label j is present, it also adds 1 / n_i to these terms, its own term, and one to P. The
    sum over samples of (weight − 1) times this derivative is the first-order change (the infinitesimal
    jackknife). A class without a present label has the value NaN and no influence.

    >>> scores, labels = torch.tensor([[3.0], [2.0], [1.0]]), torch.tensor([[1], [0], [1]])
    >>> influence, value = average_precision_influence(scores, labels)
    >>> value, influence.T  # terms 1 / 1 and 2 / 3
    (tensor([0.8333], dtype=torch.float64), tensor([[ 0.1389, -0.1111, -0.0278]]))
    """
    influence = np.zeros(scores.shape, dtype=np.float32)
    values = np.full(scores.shape[1], np.nan)
    for index, (column, label) in enumerate(zip(scores.T.numpy(), labels.T.numpy(), strict=True)):
        if (label == 1).any():
            influence[:, index], values[index] = _of_class(column, label)
    return torch.from_numpy(influence), torch.from_numpy(values)


def _of_class(
    scores: NDArray[np.float32], labels: NDArray[np.int8]
) -> tuple[NDArray[np.float64], np.float64]:
    positives = np.sort(scores[labels == 1])  # (P,) ascending
    negatives = np.sort(scores[labels == 0])
    first = np.searchsorted(positives, positives)  # ties count as at or above each other
    hits = len(positives) - first
    above = hits + len(negatives) - np.searchsorted(negatives, positives)
    terms = hits / above
    value = terms.mean()
    lost = np.concatenate([[0.0], np.cumsum(hits / above**2)])
    gained = np.concatenate([[0.0], np.cumsum(1.0 / above)])
    below = np.searchsorted(positives, scores, side="right")  # present labels that score no higher
    influence = -lost[below]
    present = labels == 1
    own = terms[np.searchsorted(positives, scores[present])]
    influence[present] += gained[below[present]] + own - value
    influence[labels < 0] = 0.0
    return influence / len(positives), value
