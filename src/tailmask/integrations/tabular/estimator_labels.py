"""What an estimator's y means: several labels a sample, one of several classes, or one of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmask._util.messages import listing

__all__ = ["EstimatorLabels", "check_column", "is_multilabel"]


def is_multilabel(y: Any) -> bool:
    """Whether y has a column for each of several labels.

    >>> is_multilabel([[1, 0], [0, 1]]), is_multilabel([0, 1]), is_multilabel([[0], [1]])
    (True, False, False)
    """
    shape = y.shape if hasattr(y, "toarray") else np.asarray(y).shape
    return len(shape) == 2 and shape[1] > 1


def check_column(y: Any) -> None:
    """Refuse one column of 0, 1 and unknown labels, of which scikit-learn would make three classes.

    >>> check_column([[0], [1], [2]])
    """
    column = np.asarray(y)
    if column.ndim != 2 or column.dtype.kind not in "if":
        return
    if np.unique(np.nan_to_num(column, nan=-1)).tolist() == [-1, 0, 1]:
        raise ValueError(
            "y with one column must hold classes, got 0, 1 and -1 or NaN: leave out the rows whose label is "
            "unknown, or pass y of shape (N,) if -1 is a class"
        )


@dataclass(frozen=True)
class EstimatorLabels:
    """The classes of a fit, between the values of y and the network's outputs, one a class.

    >>> labels = EstimatorLabels(np.array(["cat", "dog"]), multilabel=False)
    >>> labels.encode(np.array(["dog", "cat"]))
    tensor([[0., 1.],
            [1., 0.]])
    """

    classes: np.ndarray
    multilabel: bool

    @classmethod
    def of(cls, y: Any) -> EstimatorLabels:
        """The labels that occur in y."""
        if is_multilabel(y):
            rows = y if hasattr(y, "toarray") else np.asarray(y)
            return cls(np.arange(rows.shape[1]), multilabel=True)
        return cls(np.unique(y), multilabel=False)

    @property
    def binary(self) -> bool:
        """Whether y is one of two classes. The network has an output for each: PLM compares classes."""
        return not self.multilabel and len(self.classes) == 2

    def encode(self, y: Any) -> Tensor:
        """Targets (N, C) of 0, 1 and −1 (unknown)."""
        if is_multilabel(y) != self.multilabel:
            raise ValueError("y must have one column a label in all calls of partial_fit, or in none")
        if self.multilabel:
            return self._encode_rows(y)
        index = np.searchsorted(self.classes, y).clip(max=len(self.classes) - 1)
        strange = np.unique(np.asarray(y)[self.classes[index] != y])
        if len(strange):
            raise ValueError(f"y must have the classes {listing(self.classes)}, got {listing(strange)}")
        return torch.nn.functional.one_hot(torch.from_numpy(index), len(self.classes)).float()

    def _encode_rows(self, y: Any) -> Tensor:
        rows = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        if rows.shape[1] != len(self.classes):
            raise ValueError(f"y must have {len(self.classes)} columns, one a label, got {rows.shape[1]}")
        targets = torch.from_numpy(rows.astype(np.float32))  # a copy
        targets[targets.isnan()] = -1
        strange = targets[(targets != 0) & (targets != 1) & (targets != -1)].tolist()
        if strange:
            raise ValueError(
                f"y with several columns must hold 0, 1, or -1 or NaN where unknown, got {listing(strange)}"
            )
        return targets
