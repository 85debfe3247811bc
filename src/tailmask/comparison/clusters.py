"""Clusters of dependent test samples.

Samples with one cluster each (a patient's X-rays) are drawn together: the ordinary cluster bootstrap. An
image of two digits belongs to two clusters. Each digit affects all of its images, and each pair adds noise of
its own. No set of weights reproduces both parts, but variances do (Fafchamps and Gubert 2007; Aronow, Samii
and Assenova 2015): the variance under resampled digits counts the noise of a pair twice, once for each digit,
so the variance under resampled pairs is subtracted once. `PairedDifferences.add` does this.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["common_labels", "numbered", "pair_numbers"]


def numbered(clusters: Tensor) -> Tensor:
    """Clusters (N,) or (N, k), numbered from 0 in the order of their first occurrence.

    >>> numbered(torch.tensor([7, 3, 7, 9]))
    tensor([0, 1, 0, 2])
    """
    _, inverse = torch.unique(clusters, return_inverse=True)
    flat = inverse.flatten()
    number = int(flat.max()) + 1
    places = torch.arange(len(flat))
    first = torch.full((number,), len(flat)).scatter_reduce(0, flat, places, reduce="amin")
    rank = torch.empty(number, dtype=torch.int64)
    rank[first.argsort()] = torch.arange(number)
    return rank[inverse]


def pair_numbers(members: Tensor) -> Tensor:
    """A number (N,) for each pair of members (N, 2), the same for both orders.

    >>> pair_numbers(torch.tensor([[5, 2], [2, 5], [2, 2]]))
    tensor([0, 0, 1])
    """
    _, inverse = torch.unique(members.sort(dim=1).values, dim=0, return_inverse=True)
    return numbered(inverse)


def common_labels(members: Tensor, targets: Tensor) -> Tensor:
    """The stratum of each numbered member (M,): members with the same common labels share a stratum.

    The common labels of a member are those that all its samples have; a digit's is its class. The test sets
    have a fixed number of digits of each class, so digits are drawn within their class. Otherwise the
    resampled test sets would differ in the size of their classes, which real ones do not.

    >>> common_labels(torch.tensor([[0, 1], [0, 2], [3, 1], [3, 2]]), torch.eye(3)[[0, 0, 1, 1]])
    tensor([2, 0, 0, 1])
    """
    number = int(members.max()) + 1
    present = (targets == 1).to(torch.float32)
    counts = torch.zeros(number, targets.shape[1])
    for column in members.unbind(dim=1):
        counts.index_add_(0, column, present)
    samples = torch.bincount(members.flatten(), minlength=number)
    common = (counts == samples.unsqueeze(1)).numpy()
    return torch.from_numpy(np.unique(common, axis=0, return_inverse=True)[1].reshape(-1))
