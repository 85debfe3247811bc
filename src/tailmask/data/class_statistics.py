"""Label statistics of a split: positives of each class, imbalance, and which classes occur together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tailmask.data.dataset import Dataset, Split

__all__ = ["Statistics", "co_occurrence", "summaries", "summarize"]


@dataclass(frozen=True)
class Statistics:
    """Label statistics of one split; all counts are over known labels.

    `order` lists the classes from the most to the least frequent. `rho` is the imbalance ρ: the positives of
    the most frequent class over those of the least frequent class that has any. It is None if no class has
    positives.
    """

    classes: tuple[str, ...]
    num_samples: int
    positives: tuple[int, ...]
    negatives: tuple[int, ...]
    num_unlabelled: int  # samples without a single positive

    @property
    def unknown(self) -> tuple[int, ...]:
        """Unknown labels of each class."""
        counted = zip(self.positives, self.negatives, strict=True)
        return tuple(self.num_samples - positive - negative for positive, negative in counted)

    @property
    def ratios(self) -> tuple[float | None, ...]:
        """Positives over negatives of each class, r_c; None for a class without negatives."""
        counted = zip(self.positives, self.negatives, strict=True)
        return tuple(positive / negative if negative else None for positive, negative in counted)

    @property
    def order(self) -> tuple[int, ...]:
        """Classes from the most to the least frequent. Equal counts keep their order."""
        return tuple(sorted(range(len(self.classes)), key=lambda c: -self.positives[c]))

    @property
    def rho(self) -> float | None:
        """Imbalance ρ: the largest number of positives of any class over the smallest that is not zero."""
        present = [number for number in self.positives if number]
        return max(present) / min(present) if present else None

    @property
    def cardinality(self) -> float:
        """Positive labels per sample."""
        return sum(self.positives) / max(self.num_samples, 1)

    @property
    def density(self) -> float:
        """Share of the known labels that are positive."""
        known = sum(self.positives) + sum(self.negatives)
        return sum(self.positives) / max(known, 1)

    @property
    def without_positives(self) -> tuple[str, ...]:
        """Classes that are never positive."""
        return tuple(name for name, number in zip(self.classes, self.positives, strict=True) if not number)

    @property
    def without_negatives(self) -> tuple[str, ...]:
        """Classes that are never negative."""
        return tuple(name for name, number in zip(self.classes, self.negatives, strict=True) if not number)

    def to_json(self) -> dict[str, Any]:
        """The figures as plain JSON values, classes from the most to the least frequent."""
        rows = zip(self.classes, self.positives, self.negatives, self.unknown, self.ratios, strict=True)
        names = ("class", "positives", "negatives", "unknown", "ratio")
        classes = [dict(zip(names, row, strict=True)) for row in rows]
        return {
            "samples": self.num_samples,
            "labels": sum(self.positives),
            "unknown": sum(self.unknown),
            "unlabelled_samples": self.num_unlabelled,
            "rho": self.rho,
            "cardinality": self.cardinality,
            "density": self.density,
            "classes": [classes[c] for c in self.order],
        }


def summarize(split: Split, classes: Sequence[str]) -> Statistics:
    """Label statistics of a split.

    >>> split = Split(torch.zeros(4, 1), torch.tensor([[1, 0], [1, 0], [1, 1], [0, -1]], dtype=torch.int8))
    >>> statistics = summarize(split, ["cat", "dog"])
    >>> statistics.positives, statistics.rho, statistics.cardinality
    ((3, 1), 3.0, 1.0)
    """
    negatives, positives = split.counts().tolist()
    if isinstance(split.targets, Tensor):
        unlabelled = int((split.targets == 1).any(dim=1).logical_not().sum())
    else:
        unlabelled = int((split.targets.sum(axis=1) == 0).sum())
    return Statistics(tuple(classes), len(split), tuple(positives), tuple(negatives), unlabelled)


def summaries(dataset: Dataset) -> dict[str, Statistics]:
    """Label statistics of all splits, by their names."""
    return {name: summarize(split, dataset.classes) for name, split in dataset.splits.items()}


def co_occurrence(split: Split) -> Tensor:
    """The number of samples that have both classes, (C, C) int64. The diagonal has the positives of each.

    >>> split = Split(torch.zeros(3, 1), torch.tensor([[1, 0], [1, 1], [-1, 1]], dtype=torch.int8))
    >>> co_occurrence(split)
    tensor([[2, 1],
            [1, 2]])
    """
    if not isinstance(split.targets, Tensor):
        counts = split.targets.astype("int64")
        return torch.from_numpy((counts.T @ counts).toarray())
    total = torch.zeros(split.num_classes, split.num_classes, dtype=torch.int64)
    step = 2**16  # float32 counts are exact up to 2²⁴ and multiply much faster than integers
    for start in range(0, len(split), step):
        present = (split.targets[start : start + step] == 1).float()
        total += (present.T @ present).to(torch.int64)
    return total
