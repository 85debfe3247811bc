"""Precision, recall and F1 of each class, computed from four counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tailmask.metrics.known_labels import (
    as_labels,
    as_predictions,
    blocks,
    check_same_shape,
    divide,
)

__all__ = ["Confusion", "class_confusion", "confusion", "outcomes"]


@dataclass(frozen=True)
class Confusion:
    """Counts of right and wrong predictions of each class; 0/0 is 0 in all derived measures.

    Each field has shape (C,), or (B, C) for B resampled test sets; derived measures have the same shape.
    Confusions of two batches add up to the confusion of both.

    >>> Confusion(*torch.tensor([[3], [1], [2], [4]])).f1
    tensor([0.6667], dtype=torch.float64)
    """

    true_positives: Tensor
    false_positives: Tensor
    false_negatives: Tensor
    true_negatives: Tensor

    def __add__(self, other: Confusion) -> Confusion:
        return Confusion(*(own + more for own, more in zip(self.cells, other.cells, strict=True)))

    @property
    def cells(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The four fields in their order."""
        return self.true_positives, self.false_positives, self.false_negatives, self.true_negatives

    @property
    def positives(self) -> Tensor:
        """Number of known labels that are present."""
        return self.true_positives + self.false_negatives

    @property
    def known(self) -> Tensor:
        """Number of known labels, present or absent."""
        return self.positives + self.false_positives + self.true_negatives

    @property
    def precision(self) -> Tensor:
        """Share of the predicted labels that are present."""
        return divide(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> Tensor:
        """Share of the present labels that are predicted."""
        return divide(self.true_positives, self.positives)

    @property
    def f1(self) -> Tensor:
        """Harmonic mean of precision and recall."""
        wrong = self.false_positives + self.false_negatives
        return divide(2 * self.true_positives, 2 * self.true_positives + wrong)

    def measures(self) -> dict[str, Tensor]:
        """Precision, recall and F1 of each class, by name."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1}

    @property
    def micro_f1(self) -> Tensor:
        """F1 of the counts summed over all classes; one value, or (B,)."""
        return self._pooled().f1.squeeze(-1)

    @property
    def hamming_loss(self) -> Tensor:
        """Share of the known labels that are predicted wrongly; one value, or (B,)."""
        pooled = self._pooled()
        return divide(pooled.false_positives + pooled.false_negatives, pooled.known).squeeze(-1)

    def _pooled(self) -> Confusion:
        return Confusion(*(cell.sum(dim=-1, keepdim=True) for cell in self.cells))


def confusion(predictions: Tensor, targets: Tensor) -> Confusion:
    """Count right and wrong predictions of each class, for known labels only.

    `predictions` (N, C) are boolean, or 0 and 1; `targets` are 1 or 0, with −1 or NaN for unknown labels.

    >>> predictions = torch.tensor([[True, True], [False, True], [True, False]])
    >>> targets = torch.tensor([[1, 0], [1, 1], [1, -1]])
    >>> counts = confusion(predictions, targets)
    >>> counts.true_positives, counts.false_positives, counts.false_negatives
    (tensor([2, 1]), tensor([0, 1]), tensor([1, 0]))
    """
    labels = as_labels(targets)
    check_same_shape(predictions, labels, name="predictions")
    predictions = as_predictions(predictions)
    num_samples, num_classes = labels.shape
    counts = torch.zeros(4, num_classes, dtype=torch.int64, device=labels.device)
    for rows in blocks(num_samples, num_classes):
        found = outcomes(predictions[rows], labels[rows])
        counts += torch.stack([torch.count_nonzero(cell, dim=0) for cell in found])
    return Confusion(*counts)


def class_confusion(scores: Tensor, targets: Tensor) -> Tensor:
    """Confusion matrix (C, C) of single-label data: rows are true classes, columns are predicted classes.

    The class with the highest score is predicted. Samples without a known class are left out.

    >>> scores = torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 1.0]])
    >>> class_confusion(scores, torch.tensor([[1, 0], [0, 1], [0, 1]]))
    tensor([[1, 0],
            [1, 1]])
    """
    labels = as_labels(targets)
    check_same_shape(scores, labels)
    known, num_classes = (labels == 1).any(dim=1), labels.shape[1]
    true, predicted = (labels == 1).to(torch.int8)[known].argmax(dim=1), scores[known].argmax(dim=1)
    return torch.bincount(true * num_classes + predicted, minlength=num_classes**2).view(num_classes, -1)


def outcomes(predictions: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four boolean masks, one per outcome, in the order of Confusion's fields.

    >>> outcomes(torch.tensor([True, False]), torch.tensor([1, 1]))[0]
    tensor([ True, False])
    """
    present, absent = labels == 1, labels == 0
    return predictions & present, predictions & absent, ~predictions & present, ~predictions & absent
