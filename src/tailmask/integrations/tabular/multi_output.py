"""Partial Label Masking around any estimator that takes sample weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter, validate_data

from tailmask.integrations.tabular.estimator_labels import EstimatorLabels, check_column, is_multilabel
from tailmask.integrations.tabular.held_out_samples import hold_out
from tailmask.masking.ratio_track import Masking, RatioTrack

__all__ = ["PLMMultiOutputClassifier"]

# A quarter of the rows is held out; with up to this many rows, then a second and a third quarter, too.
_PARTS, _FEW_ROWS = 4, 3000


def _has_probabilities(wrapper: PLMMultiOutputClassifier) -> bool:
    return hasattr(wrapper.estimator, "predict_proba")


class PLMMultiOutputClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Partial Label Masking around an estimator: one clone per label, with Eq. 3 as sample weights.

    The estimator takes `sample_weight` in `fit` and has `predict_proba` or `decision_function`. The weight of
    each label is the probability with which PLM would keep it. Clones are fitted on inner folds `updates`
    times, and their outputs for the other rows move the ratios. The final clones are fitted on all rows.

    Targets are multi-label (one column of 0 and 1 per label, −1 or NaN if unknown; or a list of tags per
    row) or one of two classes. A label with only one value is always predicted as that value. With `rate=0`
    nothing is masked.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> Y = np.hstack([X > 0, X > 0.8]).astype(int)
    >>> plain = PLMMultiOutputClassifier(LogisticRegression(), rate=0).fit(X, Y)
    >>> masked = PLMMultiOutputClassifier(LogisticRegression(), random_state=0).fit(X, Y)
    >>> plain.predict(X).sum(axis=0), masked.predict(X).sum(axis=0)
    (array([20,  0]), array([20,  5]))

    Args:
        estimator: The estimator to clone for each label.
        adapt: The rule that moves the ratios: "prevalence" matches the shares of predicted and true
            positives, "divergence" is the paper's rule.
        rate: λ of Eq. 7. None is 0.1 for "divergence". For "prevalence" it is 3.5 / `updates`, at most 1;
            with 7 to 18 updates it is 0.5, and with more updates 9 / `updates`.
        initial_ratio: As in `PartialLabelMasking`.
        ratio_range: As in `PartialLabelMasking`.
        updates: How often the ratios are moved. Each update fits clones for all labels and inner folds: three
            folds up to 3,000 rows, else one.
        random_state: Seed of the inner folds.

    Attributes:
        classes_: The two classes of y; for multi-label targets the tags, or the names of a frame's columns,
            else the columns' numbers.
        estimators_: The fitted clone of each label; None for a label with only one value.
        target_ratio_: The ratio of positives to negatives (C,) in training.
        prior_shift_: Shift (C,) to add to the logits, so that they hold for the prevalence of the data.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        adapt: Literal["divergence", "prevalence"] = "prevalence",
        rate: float | None = None,
        initial_ratio: Literal["class", "mean", "min", "max"] = "class",
        ratio_range: tuple[float, float] | None = None,
        updates: int = 4,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.adapt = adapt
        self.rate = rate
        self.initial_ratio = initial_ratio
        self.ratio_range = ratio_range
        self.updates = updates
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a clone per label on X (N, F), in any form that the estimator takes, and y, (N,) or (N, C)."""
        self._check_estimator()
        masking = Masking(
            adapt=self.adapt,
            rate=self.rate,
            initial_ratio=self.initial_ratio,
            ratio_range=self.ratio_range,
            updates=self.updates,
        )
        X = self._validate(X, reset=True)
        labels, targets = self._read(X, y)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        track = RatioTrack(masking, targets)
        if masking.moves:
            _steer(self.estimator, X, targets, track, updates=masking.updates, seed=seed)
        self.estimators_ = _fit_columns(self.estimator, X, targets, track.label_weights(targets))
        self.target_ratio_ = track.target_ratio.numpy()
        self.prior_shift_ = track.prior_shift.numpy()
        self._labels, self.classes_ = labels, labels.classes
        self._constant = _prior_logits(targets)
        return self

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Outputs (N, C), or (N,) for two classes: the clones' outputs, or the logits of their probabilities.

        A label is predicted above 0.
        """
        outputs = self._outputs(X, probabilities=False)
        return outputs[:, 0] if self._labels.binary else outputs

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_proba(self, X: Any) -> Any:
        """Probabilities (N, C) of the labels, or (N, 2) of the two classes.

        They hold for the ratios in training, not for the ratios of the data.
        """
        outputs = self._outputs(X, probabilities=True)
        return np.hstack([1 - outputs, outputs]) if self._labels.binary else self._labels.framed(outputs, X)

    def predict(self, X: Any) -> Any:
        """Labels (N, C) of 0 and 1, or the class (N,) of each sample."""
        predicted = (np.atleast_2d(self.decision_function(X).T).T > 0).astype(np.int64)
        if self._labels.multilabel:
            return self._labels.framed(predicted, X)
        return self._labels.classes[predicted[:, 0]]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    def _check_estimator(self) -> None:
        name = type(self.estimator).__name__
        if not has_fit_parameter(self.estimator, "sample_weight"):
            raise ValueError(f"the estimator must take sample_weight in fit, but {name} does not")
        if not any(hasattr(self.estimator, each) for each in ("predict_proba", "decision_function")):
            raise ValueError(
                f"the estimator must have predict_proba or decision_function, but {name} has none"
            )

    def _read(self, X: Any, y: Any) -> tuple[EstimatorLabels, npt.NDArray[np.int8]]:
        """The labels and the targets (N, C) of 0, 1 and −1."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None: pass the labels")
        multilabel = is_multilabel(y)
        if not multilabel:
            check_column(y)
            y = column_or_1d(y, warn=True)
            check_classification_targets(y)
        check_consistent_length(X, y)
        labels = EstimatorLabels.of(y)
        if not multilabel and len(labels.classes) != 2:
            kind = "one class" if len(labels.classes) == 1 else f"{len(labels.classes)} classes"
            raise ValueError(
                f"Only binary classification is supported for y of one column, got {kind}: pass a column of "
                "0 and 1 per class"
            )
        targets = labels.encode(y).to(torch.int8).numpy()
        return labels, targets if multilabel else targets[:, 1:]

    def _outputs(self, X: Any, *, probabilities: bool) -> npt.NDArray[np.float64]:
        check_is_fitted(self, "estimators_")
        X = self._validate(X, reset=False)
        return _columns(self.estimators_, X, self._constant, probabilities=probabilities)

    def _validate(self, X: Any, *, reset: bool) -> Any:
        """Frames unchanged, anything else as an array or CSR. The clones check the values."""
        if hasattr(X, "columns"):
            validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        return validate_data(self, X, accept_sparse="csr", dtype=None, ensure_all_finite=False, reset=reset)


def _steer(
    estimator: Any, X: Any, targets: np.ndarray, track: RatioTrack, *, updates: int, seed: int
) -> None:
    """Move the ratios by out-of-fold outputs: clones predict inner folds that they did not train on."""
    cuts = list(_inner_cuts(targets, seed))
    constant = _prior_logits(targets)
    for _ in range(updates if cuts else 0):
        weights, outputs = track.label_weights(targets), []
        for kept, held in cuts:
            clones = _fit_columns(estimator, _safe_indexing(X, kept), targets[kept], weights[kept])
            inputs = _safe_indexing(X, held)
            outputs.append(_columns(clones, inputs, constant, probabilities=False))
        logits = torch.from_numpy(np.concatenate(outputs)).float()
        track.update(logits, targets[np.concatenate([held for _, held in cuts])])


def _inner_cuts(targets: np.ndarray, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Kept and held-out rows, with a fair share of every class held out; empty if there are too few rows."""
    labels, generator = torch.from_numpy(targets), torch.Generator().manual_seed(seed)
    left = torch.arange(len(labels))
    for parts in range(_PARTS, 1 if len(labels) <= _FEW_ROWS else _PARTS - 1, -1):
        kept, held = hold_out(labels[left], 1 / parts, generator)
        if len(held):
            rows = left[held].numpy()
            yield np.setdiff1d(np.arange(len(labels)), rows), rows
        left = left[kept]


def _prior_logits(targets: np.ndarray) -> npt.NDArray[np.float64]:
    """The logit of each class's prevalence (C,), smoothed by half a positive and half a negative."""
    logits: npt.NDArray[np.float64] = np.log((targets == 1).sum(0) + 0.5) - np.log(
        (targets == 0).sum(0) + 0.5
    )
    return logits


def _fit_columns(estimator: Any, X: Any, targets: np.ndarray, weights: np.ndarray) -> list[Any]:
    """One clone per column, fitted on its known labels; None for a column with only one value."""
    fitted: list[Any] = []
    for column, weight in zip(targets.T, weights.T, strict=True):
        known = np.flatnonzero(column >= 0)
        if len(np.unique(column[known])) < 2:
            fitted.append(None)
            continue
        rows = X if len(known) == len(column) else _safe_indexing(X, known)
        is_weighted = bool((weight[known] != 1).any())
        options = {"sample_weight": weight[known].astype(np.float64)} if is_weighted else {}
        fitted.append(clone(estimator).fit(rows, column[known].astype(np.int64), **options))
    return fitted


def _columns(
    estimators: Sequence[Any], X: Any, constant: np.ndarray, *, probabilities: bool
) -> npt.NDArray[np.float64]:
    """The outputs of all clones (N, C); a column without a clone has the logit of its prevalence."""
    columns = []
    for estimator, logit in zip(estimators, constant, strict=True):
        if estimator is None:
            column = np.full(X.shape[0], 1 / (1 + np.exp(-logit)) if probabilities else logit)
        elif probabilities:
            column = estimator.predict_proba(X)[:, 1]
        elif hasattr(estimator, "decision_function"):
            column = estimator.decision_function(X)
        else:
            column = _logit(estimator.predict_proba(X)[:, 1])
        columns.append(np.asarray(column, dtype=np.float64))
    return np.stack(columns, axis=1)


def _logit(probabilities: np.ndarray) -> npt.NDArray[np.float64]:
    tiny = np.finfo(np.float64).eps
    clipped = np.clip(probabilities.astype(np.float64), tiny, 1 - tiny)
    logit: npt.NDArray[np.float64] = np.log(clipped) - np.log1p(-clipped)
    return logit
