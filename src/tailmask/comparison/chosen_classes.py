"""Classes to look at: the difficult ones, and a few that represent all."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

__all__ = ["by_frequency", "difficult_classes", "representative_classes"]


def by_frequency(train_positives: Sequence[int]) -> list[int]:
    """Class indices from the most to the least frequent in training, ties by index.

    >>> by_frequency([5, 90, 20])
    [1, 2, 0]
    """
    return sorted(range(len(train_positives)), key=lambda index: -train_positives[index])


def difficult_classes(f1: Sequence[float], train_positives: Sequence[int]) -> list[int]:
    """Classes with many training samples but an F1 below 20 %, the most frequent first.

    As in the paper's discussion of binary cross-entropy. Many means at least the median of the classes.

    >>> difficult_classes([0.9, 0.15, 0.1], train_positives=[900, 500, 20])
    [1]
    """
    many = statistics.median(train_positives)
    return [
        index for index in by_frequency(train_positives) if train_positives[index] >= many and f1[index] < 0.2
    ]


def representative_classes(train_positives: Sequence[int], number: int = 4) -> list[int]:
    """At most `number` classes in even steps from the most frequent to the rarest.

    >>> representative_classes([5, 90, 20, 7, 40], number=3)
    [1, 2, 0]
    """
    order = by_frequency(train_positives)
    if len(order) <= number:
        return order
    return [order[round(step * (len(order) - 1) / (number - 1))] for step in range(number)]
