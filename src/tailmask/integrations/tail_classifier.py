"""`TailClassifier`: `tailmask.fit` as a scikit-learn estimator."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from tailmask.data.readers.table.program_frames import as_polars
from tailmask.data.row_formats import ArrayFormat, TableFormat, table_format
from tailmask.data.rows import Rows
from tailmask.fitting.best_model import FIT_METHODS
from tailmask.fitting.rows_model import fit_rows
from tailmask.integrations.tabular.estimator_labels import (
    EstimatorLabels,
    check_column,
    is_multilabel,
    validated,
)

# The imports above say what to install if scikit-learn is missing.
# isort: split
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["TailClassifier"]


class TailClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Several learners, cross-fitted and combined, with thresholds from out-of-fold outputs.

    Targets are multi-label (one column of 0 and 1 per label, −1 or NaN if unknown; or a list of tags per
    row), or one class per sample. X is an array, a sparse array, or a polars or pandas frame with columns of
    any kind. If the labels are a frame, or a column of lists, predictions are frames with a column per label.
    Copies of a row are in one fold.

    >>> X = np.arange(40.0)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 19, X[:, 0] > 29]).astype(int)
    >>> model = TailClassifier(methods=("linear:C=1",), folds=3, random_state=0).fit(X, Y)
    >>> model.predict([[0.0], [39.0]])
    array([[0, 0],
           [1, 1]])

    Args:
        methods: Names of methods; None is linear, trees, boost and bce, a network.
        minutes: Time for training; a method that would not finish in time is left out. None sets no limit.
        folds: Number of folds, at most the number of samples.
        epochs: Number of epochs of the networks; None is the recipe's number.
        thresholds: A label is predicted from this probability on; "tuned" fits thresholds for F1 on
            out-of-fold outputs. None is "tuned" for several labels, and 0.5 for one of two classes.
        random_state: Seed of folds, weights and masks.

    Attributes:
        classes_: Classes of y; for multi-label targets the tags, or the names of a frame's columns, else the
            columns' numbers.
        thresholds_: Thresholds of the classes, on their probabilities.
        leaderboard_: Out-of-fold F1 and mAP of each method, by name.
        weights_: The weight of each method in the ensemble, by name.
    """

    def __init__(
        self,
        *,
        methods: Sequence[str] | None = None,
        minutes: float | None = None,
        folds: int = 5,
        epochs: int | None = None,
        thresholds: float | Literal["tuned"] | None = None,
        random_state: Any = None,
    ) -> None:
        self.methods = methods
        self.minutes = minutes
        self.folds = folds
        self.epochs = epochs
        self.thresholds = thresholds
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train on X (N, F) and y, classes (N,) or labels (N, C)."""
        self.__dict__.pop("_model", None)  # an estimator whose fit fails is not fitted
        if hasattr(y, "columns") and len(y.columns) == 1 and not is_multilabel(y):
            y = as_polars(y).to_series().to_numpy()
        rows, y = self._training_rows(X, y)
        labels = EstimatorLabels.of(y)
        self._labels = labels
        self.classes_ = labels.classes
        if len(self.classes_) < 2 and not labels.multilabel:
            raise ValueError(f"y must have two classes or more, got one class, {self.classes_[0]!r}")
        # Two classes need one output: that of the second class.
        encoded = labels.encode(y).numpy().astype(np.int8)
        targets = encoded[:, 1:] if labels.binary else encoded
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        with tempfile.TemporaryDirectory(prefix="tailmask-") as workdir:
            found = fit_rows(
                Rows(rows.features, targets, format=rows.format),
                classes=[str(name) for name in (self.classes_[1:] if labels.binary else self.classes_)],
                single_label=not labels.multilabel and not labels.binary,
                methods=FIT_METHODS if self.methods is None else self.methods,
                folds=self.folds,
                epochs=self.epochs,
                minutes=self.minutes,
                seed=seed,
                workdir=Path(workdir),
            )
        self.leaderboard_, self.weights_ = found.leaderboard, found.weights
        self.thresholds_ = self._thresholds(found.thresholds)
        self._model = found.fitted  # last: it marks the estimator as fitted
        return self

    def predict_proba(self, X: Any) -> Any:
        """Calibrated probabilities (N, C): one per label, or one per class with a sum of one."""
        positive = self._positive(X)
        if self._labels.multilabel:
            return self._labels.framed(positive, X)
        if self._labels.binary:
            return np.column_stack([1 - positive[:, 0], positive[:, 0]])
        total = positive.sum(1, keepdims=True)
        return positive / np.where(total > 0, total, 1.0)

    def predict(self, X: Any) -> Any:
        """Labels (N, C) of 0 and 1, or the class (N,) of each sample."""
        positive = self._positive(X)
        if self._labels.multilabel:
            return self._labels.framed((positive >= self.thresholds_).astype(np.int64), X)
        if self._labels.binary:
            return self.classes_[(positive[:, 0] >= self.thresholds_[0]).astype(np.int64)]
        return self.classes_[positive.argmax(axis=1)]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def _thresholds(self, tuned: np.ndarray) -> np.ndarray:
        """The thresholds of the outputs (C,) that the option `thresholds` asks for."""
        asked = self.thresholds
        if asked is None:
            asked = "tuned" if self._labels.multilabel else 0.5
        if asked == "tuned":
            return tuned
        if not isinstance(asked, float | int) or not 0 < asked < 1:
            raise ValueError(f"thresholds must be a number between 0 and 1 or 'tuned', got {asked!r}")
        return np.full_like(tuned, asked)

    def _training_rows(self, X: Any, y: Any) -> tuple[Rows, Any]:
        """Raw rows and checked labels. A frame keeps columns of every kind."""
        self._format: TableFormat | ArrayFormat
        if _is_mixed(X):
            frame = as_polars(X)
            self._format = table_format(frame)
            self.n_features_in_ = frame.width
            self.feature_names_in_ = np.array(frame.columns, dtype=object)
            check_consistent_length(X, y)
            if not is_multilabel(y):
                check_column(y)
                check_classification_targets(y)
            return self._format.rows(frame), y
        X, y = validated(self, X, y, reset=True)
        self._format = ArrayFormat("X", X.shape[1])
        return self._format.rows(X), y

    def _positive(self, X: Any) -> np.ndarray:
        """The probability of each output (N, C)."""
        check_is_fitted(self)
        if isinstance(self._format, TableFormat):
            rows = self._format.rows(as_polars(X))
        else:
            checked = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
            rows = self._format.rows(checked)
        probabilities: np.ndarray = self._model.logits(rows).double().sigmoid().numpy()
        return probabilities


def _is_mixed(X: Any) -> bool:
    """True if X is a polars frame, or a frame with a column that is not numeric."""
    if not hasattr(X, "columns") or hasattr(X, "toarray"):
        return False
    if type(X).__module__.startswith("polars"):
        return True
    return any(getattr(kind, "kind", "O") not in "biuf" for kind in X.dtypes)
