"""The meaning of an estimator's y: several labels per sample, one of several classes, or one of two."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmask._util.messages import listing

__all__ = ["EstimatorLabels", "check_column", "is_multilabel"]

_UNKNOWN = dict.fromkeys(("", "nan", "none", "<na>"), math.nan)
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0} | _UNKNOWN


def is_multilabel(y: Any) -> bool:
    """True if y has a column for each of several labels.

    >>> is_multilabel([[1, 0], [0, 1]]), is_multilabel([0, 1]), is_multilabel([[0], [1]])
    (True, False, False)
    """
    shape = y.shape if hasattr(y, "toarray") else np.asarray(y).shape
    return len(shape) == 2 and shape[1] > 1


def check_column(y: Any) -> None:
    """Refuse one column of 0, 1 and unknown labels: scikit-learn would see three classes.

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
    """The classes of a fit. They translate between the values of y and the network's outputs, one per class.

    >>> labels = EstimatorLabels(np.array(["cat", "dog"]), multilabel=False)
    >>> labels.encode(np.array(["dog", "cat"]))
    tensor([[0., 1.],
            [1., 0.]])
    """

    classes: np.ndarray
    multilabel: bool
    library: str | None = None  # pandas or polars, if y was a frame with a column for each label

    @classmethod
    def of(cls, y: Any) -> EstimatorLabels:
        """The labels that occur in y."""
        if is_multilabel(y):
            if hasattr(y, "columns"):
                names = np.array([str(name) for name in y.columns])
                return cls(names, multilabel=True, library=type(y).__module__.partition(".")[0])
            rows = y if hasattr(y, "toarray") else np.asarray(y)
            return cls(np.arange(rows.shape[1]), multilabel=True)
        return cls(np.unique(y), multilabel=False)

    @property
    def binary(self) -> bool:
        """True if y is one of two classes. The network still has an output for each: PLM compares classes."""
        return not self.multilabel and len(self.classes) == 2

    def framed(self, values: np.ndarray) -> Any:
        """Values (N, C) as a frame of the library that y came from; as an array if y was no frame."""
        if self.library is None:
            return values
        columns = {str(name): values[:, number] for number, name in enumerate(self.classes)}
        return importlib.import_module(self.library).DataFrame(columns)

    def encode(self, y: Any) -> Tensor:
        """Targets (N, C) of 0, 1 and −1 (unknown)."""
        if is_multilabel(y) != self.multilabel:
            raise ValueError("y must have one column per label in all calls of partial_fit, or in none")
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
            raise ValueError(f"y must have {len(self.classes)} columns, one per label, got {rows.shape[1]}")
        if rows.dtype.kind in "OUT":
            rows = np.vectorize(lambda cell: _WORDS.get(str(cell).strip().lower(), cell), otypes=[object])(
                rows
            )
        try:
            targets = torch.from_numpy(rows.astype(np.float32))  # a copy
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"y with several columns must hold 0 and 1, or yes and no, or -1 or NaN for unknown ({error})"
            ) from None
        targets[targets.isnan()] = -1
        strange = targets[(targets != 0) & (targets != 1) & (targets != -1)].tolist()
        if strange:
            raise ValueError(
                f"y with several columns must hold 0, 1, or -1 or NaN for unknown, got {listing(strange)}"
            )
        return targets
