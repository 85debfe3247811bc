"""The meaning of an estimator's y: several labels per sample, one of several classes, or one of two."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from torch import Tensor

from tailmask._util.messages import listing
from tailmask.data.readers.table.program_frames import frame_library, named_columns
from tailmask.integrations.tabular.row_tags import Tags, distinct_tags, tag_lists

__all__ = ["EstimatorLabels", "check_column", "is_multilabel", "validated"]

_UNKNOWN = dict.fromkeys(("", "nan", "none", "<na>"), math.nan)
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0} | _UNKNOWN


def is_multilabel(y: Any) -> bool:
    """True if y has a column for each of several labels, or a list of tags per row.

    >>> is_multilabel([[1, 0], [0, 1]]), is_multilabel([0, 1]), is_multilabel([["a", "b"], ["a"]])
    (True, False, True)
    """
    if tag_lists(y) is not None:
        return True
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


def validated(estimator: Any, features: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
    """Features (N, F) in float32, dense or CSR, and y, after scikit-learn's checks for an estimator."""
    options = {"accept_sparse": "csr", "dtype": np.float32, "reset": reset}
    if is_multilabel(y):
        features = validate_data(estimator, features, **options)  # scikit-learn would refuse unknown labels
        check_consistent_length(features, y)
        return features, y
    check_column(y)
    features, y = validate_data(estimator, features, y, **options)
    check_classification_targets(y)
    return features, y


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
    library: str | None = None  # pandas or polars, if y was a frame, or a series with lists of tags

    @classmethod
    def of(cls, y: Any, classes: Any = None) -> EstimatorLabels:
        """The labels that occur in y; `classes` has those of all data, if y may lack some."""
        library, tags = frame_library(y), tag_lists(y)
        if tags is not None:
            known = distinct_tags(tags if classes is None else [classes])
            return cls(known, multilabel=True, library=library)
        if is_multilabel(y):
            if hasattr(y, "columns"):
                return cls(np.array([str(name) for name in y.columns]), multilabel=True, library=library)
            rows = y if hasattr(y, "toarray") else np.asarray(y)
            return cls(np.arange(rows.shape[1]), multilabel=True)
        return cls(np.unique(y if classes is None else classes), multilabel=False)

    @property
    def binary(self) -> bool:
        """True if y is one of two classes. The network still has an output for each: PLM compares classes."""
        return not self.multilabel and len(self.classes) == 2

    def framed(self, values: np.ndarray, features: Any) -> Any:
        """Values (N, C) as a frame of the library that y came from; as an array if y was no frame.

        A frame of pandas has the index of the features.
        """
        if self.library is None:
            return values
        return named_columns(values, self.classes, library=self.library, features=features)

    def encode(self, y: Any) -> Tensor:
        """Targets (N, C) of 0, 1 and −1 (unknown)."""
        if is_multilabel(y) != self.multilabel:
            raise ValueError("y must have one column per label in all calls of partial_fit, or in none")
        tags = tag_lists(y)
        if tags is not None:
            return self._encode_tags(tags)
        if self.multilabel:
            return self._encode_rows(y)
        index = np.searchsorted(self.classes, y).clip(max=len(self.classes) - 1)
        strange = np.unique(np.asarray(y)[self.classes[index] != y])
        if len(strange):
            raise ValueError(f"y must have the classes {listing(self.classes)}, got {listing(strange)}")
        return torch.nn.functional.one_hot(torch.from_numpy(index), len(self.classes)).float()

    def _encode_tags(self, tags: Tags) -> Tensor:
        numbers = {tag: number for number, tag in enumerate(self.classes.tolist())}
        strange = distinct_tags([[tag for tag in row or () if tag not in numbers] for row in tags])
        if len(strange):
            raise ValueError(f"y must have the tags {listing(self.classes)}, got {listing(strange)}")
        targets = torch.zeros(len(tags), len(numbers))
        for place, row in enumerate(tags):
            if row is None:
                targets[place] = -1
            else:
                targets[place, [numbers[tag] for tag in row]] = 1
        return targets

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
