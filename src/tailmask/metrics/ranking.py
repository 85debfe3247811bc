"""Ranking measures of each sample: precision and nDCG of its first k labels, and ranking loss.

They compare scores of different classes within one sample, and per-class thresholds do not change them.
Precision and nDCG are defined for samples with a present label, the ranking loss for samples with a known
label; other samples get NaN and are left out of means. Classes with equal scores share their places: the
result is the mean over all ways to order them, so the order of the classes does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tailmask.metrics.known_labels import as_labels, as_scores, blocks, check_same_shape, sort_rows

__all__ = ["ndcg_at", "precision_at", "ranking_loss", "ranking_measures"]


def precision_at(scores: Tensor, targets: Tensor, k: int) -> Tensor:
    """Share of the k highest-scored known labels of each sample that are present (P@k), shape (N,).

    >>> precision_at(torch.tensor([[0.9, 0.8, 0.1]]), torch.tensor([[1, 0, 1]]), 2)
    tensor([0.5000], dtype=torch.float64)
    """
    return ranking_measures(scores, targets, ks=(k,))[f"precision_at_{k}"]


def ndcg_at(scores: Tensor, targets: Tensor, k: int) -> Tensor:
    """Discounted gain of the k highest-scored known labels, divided by the best possible gain (nDCG@k), (N,).

    A present label in place i gains 1 / log₂(i + 1) (Järvelin and Kekäläinen, 2002).

    >>> ndcg_at(torch.tensor([[0.9, 0.8, 0.1]]), torch.tensor([[0, 1, 0]]), 2)
    tensor([0.6309], dtype=torch.float64)
    """
    return ranking_measures(scores, targets, ks=(k,))[f"ndcg_at_{k}"]


def ranking_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """Share of a sample's pairs of a present and an absent label that are in the wrong order, shape (N,).

    As in scikit-learn's `label_ranking_loss`, a pair with equal scores counts as wrong, and a sample with all
    labels or none has loss 0. Unknown labels are in no pair; a sample without a known label has NaN.

    >>> ranking_loss(torch.tensor([[0.9, 0.8, 0.1, 0.1]] * 2), torch.tensor([[1, 0, 1, 0], [1, 1, 1, 1]]))
    tensor([0.5000, 0.0000], dtype=torch.float64)
    """
    return ranking_measures(scores, targets, ks=())["ranking_loss"]


def ranking_measures(scores: Tensor, targets: Tensor, *, ks: Sequence[int] = (1, 3, 5)) -> dict[str, Tensor]:
    """All measures of this file in one pass: `precision_at_k`, `ndcg_at_k` and `ranking_loss`, each (N,).

    >>> sorted(ranking_measures(torch.rand(2, 3), torch.eye(3)[:2], ks=(1, 2)))
    ['ndcg_at_1', 'ndcg_at_2', 'precision_at_1', 'precision_at_2', 'ranking_loss']
    """
    scores, labels = as_scores(scores), as_labels(targets)
    check_same_shape(scores, labels)
    num_samples, num_classes = scores.shape
    for k in ks:
        if not 1 <= k <= num_classes:
            raise ValueError(f"k must lie between 1 and the number of classes, {num_classes}, got {k}")
    names = [f"{name}_at_{k}" for k in ks for name in ("precision", "ndcg")] + ["ranking_loss"]
    values = torch.empty(len(names), num_samples, dtype=torch.float64, device=scores.device)
    for rows in blocks(num_samples, num_classes):
        known, present = labels[rows] >= 0, labels[rows] == 1
        ranked = scores[rows].masked_fill(~known, -torch.inf)  # below all that are known
        num_known, num_present = (torch.count_nonzero(mask, dim=1) for mask in (known, present))
        num_pairs = (num_present * (num_known - num_present)).clamp(min=1)
        loss = _inverted_pairs(ranked, present).double() / num_pairs
        measures = [loss.masked_fill(num_known == 0, torch.nan)]
        if ks:
            relevance = _expected_relevance(ranked, present, max(ks))  # (n, max k)
            places = torch.arange(1, max(ks) + 1, dtype=torch.float64, device=scores.device)
            gain, discount = relevance.cumsum(dim=1), 1.0 / torch.log2(places + 1.0)
            discounted, ideal = (relevance * discount).cumsum(dim=1), discount.cumsum(dim=0)
            at_k = []
            for k in ks:
                at_k.append(gain[:, k - 1] / num_known.clamp(max=k))
                at_k.append(discounted[:, k - 1] / ideal[num_present.clamp(1, k) - 1])
            measures = [value.masked_fill(num_present == 0, torch.nan) for value in at_k] + measures
        values[:, rows] = torch.stack(measures)
    return dict(zip(names, values, strict=True))


def _expected_relevance(ranked: Tensor, present: Tensor, k: int) -> Tensor:
    """Probability that the label in each of the first k places is present, ties in random order, (N, k)."""
    top, index = ranked.topk(k, dim=1)
    hits = present.gather(1, index).to(torch.float64)
    tied = (top.unsqueeze(2) == top.unsqueeze(1)).to(torch.float64)  # (N, k, k)
    relevance = (tied * hits.unsqueeze(1)).sum(dim=2) / tied.sum(dim=2)
    # A tie at the last place may extend beyond it, so ties are counted over all classes.
    border = ranked == top[:, -1:]
    border_hits = torch.count_nonzero(border & present, dim=1).double()
    border_relevance = border_hits / torch.count_nonzero(border, dim=1)
    return torch.where(top == top[:, -1:], border_relevance.unsqueeze(1), relevance)


def _inverted_pairs(ranked: Tensor, present: Tensor) -> Tensor:
    """Number of pairs of a present label and an absent one with at least the same score, (N,)."""
    num_classes = ranked.shape[1]
    most = int(torch.count_nonzero(present, dim=1).max()) if len(ranked) else 0
    ordered = sort_rows(ranked)
    # Ascending, padded in front with −∞ if a sample has fewer labels; the padding does not enter the sums.
    positives = sort_rows(ranked.masked_fill(~present, -torch.inf))[:, num_classes - most :].contiguous()
    # For each present label: the numbers of all labels and of present labels with at least its score.
    at_or_above = num_classes - torch.searchsorted(ordered, positives)
    hits = most - torch.searchsorted(positives, positives)
    return (at_or_above - hits).masked_fill(positives == -torch.inf, 0).sum(dim=1)
