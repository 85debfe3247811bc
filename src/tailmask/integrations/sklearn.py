"""Partial Label Masking as a scikit-learn estimator, and around any estimator that takes sample weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from tailmask.calibration import DecisionRule
from tailmask.integrations.tabular.estimator_labels import EstimatorLabels, validated
from tailmask.integrations.tabular.estimator_options import (
    build_loss,
    check_options,
    hidden_sizes,
    is_tuned,
    needs_counts,
)
from tailmask.integrations.tabular.estimator_training import Training, TrainingRows, as_counts
from tailmask.integrations.tabular.multi_output import PLMMultiOutputClassifier
from tailmask.integrations.tabular.perceptron import Perceptron
from tailmask.masking import PartialLabelMasking

# The imports above say what to install if scikit-learn is missing.
# isort: split
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

__all__ = ["PLMClassifier", "PLMMultiOutputClassifier"]

# The epochs of the recipe for tables: the assumed length of a fit that may stop early.
_USUAL_EPOCHS = 60


class PLMClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Multi-layer perceptron trained with Partial Label Masking, for imbalanced classes.

    Targets are multi-label (one column of 0 and 1 per label, −1 or NaN if unknown; or a list of tags per
    row), or one of two or more classes per sample. A single column holds classes, and none may be unknown.
    With `rate=0` it is a plain perceptron, so a grid search over `rate=[0, None]` shows whether masking
    helps. Scale the features, as for any perceptron.

    >>> X, Y = np.eye(4), np.array([[1, 0], [1, 0], [1, 1], [0, 1]])
    >>> PLMClassifier(max_epochs=200, random_state=0).fit(X, Y).predict(X)
    array([[1, 0],
           [1, 0],
           [1, 1],
           [0, 1]])

    Args:
        rate: λ of the paper's Eq. 7, how fast the ratios move. None is 0.01; for `adapt="prevalence"` it is
            the default of `PartialLabelMasking` for `max_epochs` (with `early_stopping`, at most 60).
        loss: Name of a loss in the [method grammar](methods.md), such as "focal", with options after a colon,
            as in "asl:detach=false"; or an elementwise loss (logits, targets) → (N, C).
        adapt: As in `PartialLabelMasking`. "prevalence" takes its statistics from held-out data, and does
            not move the ratios in the first half of `max_epochs` (with `early_stopping`, of at most 60).
        initial_ratio: As in `PartialLabelMasking`.
        ratio_range: As in `PartialLabelMasking`.
        expected: As in `PartialLabelMasking`.
        hidden_layer_sizes: Width of each hidden layer, or a number for one layer; () is a linear model.
        max_epochs: Passes over the data.
        batch_size: Samples per step.
        learning_rate: Learning rate of AdamW.
        weight_decay: Weight decay of AdamW.
        thresholds: A label is predicted from this probability on; "tuned" fits thresholds for F1 on held-out
            data. For multi-label targets, and for the second of two classes.
        decide: The goal of thresholds that are fitted on held-out data: "f1" (as `thresholds="tuned"`),
            "precision=0.9", "recall=0.8", "cost=5" (a miss costs five false alarms), or for multi-label
            targets "top=3" (three labels per sample); see `tailmask.calibration.DecisionRule`.
        early_stopping: Hold out a part of the data, and stop when its mean F1 over classes has not risen for
            `n_iter_no_change` epochs. Epochs count once the ratios may move. The weights and ratios are then
            those of the best epoch.
        validation_fraction: Share of the data that is held out if an option needs it.
        n_iter_no_change: Patience of `early_stopping`, in epochs.
        random_state: Seed of the initial weights, the order of the samples, the masks and the held-out part.

    Attributes:
        classes_: Classes of y; for multi-label targets the tags, or the names of a frame's columns, else the
            columns' numbers.
        criterion_: The `PartialLabelMasking` after training; `criterion_.target_ratio` are the ratios.
        thresholds_: Thresholds of the classes.
        loss_curve_: Mean loss of each epoch.
        ratio_curve_: Ratios (C,) during each epoch.
        validation_scores_: Mean F1 of each epoch on the held-out data, with `early_stopping`.
        n_iter_: Number of epochs.
    """

    def __init__(
        self,
        *,
        rate: float | None = None,
        loss: str | Callable[[Tensor, Tensor], Tensor] = "bce",
        adapt: Literal["divergence", "prevalence"] | Callable[[Tensor], Tensor] = "divergence",
        initial_ratio: Literal["class", "mean", "min", "max"] | Tensor = "class",
        ratio_range: tuple[float, float] | None = None,
        expected: bool = False,
        hidden_layer_sizes: int | Sequence[int] = (100,),
        max_epochs: int = 100,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,
        thresholds: float | Literal["tuned"] = 0.5,
        decide: str | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: Any = None,
    ) -> None:
        self.rate = rate
        self.loss = loss
        self.adapt = adapt
        self.initial_ratio = initial_ratio
        self.ratio_range = ratio_range
        self.expected = expected
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.thresholds = thresholds
        self.decide = decide
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on X (N, F), dense or sparse, and y, classes (N,) or labels (N, C).

        Labels are 0 and 1, or "yes" and "no". A list or set of tags per row is a column of labels for each
        tag. If y is a frame, or a column of lists, of pandas or polars, `predict` and `predict_proba` return
        such frames.
        Sample weights apply to the loss, the class ratios and the held-out scores. Only their relative size
        matters.
        """
        self.__dict__.pop("_training", None)  # an estimator whose fit fails is not fitted
        X, y = validated(self, X, y, reset=True)
        labels = EstimatorLabels.of(y)
        rows = _rows(X, labels.encode(y), sample_weight).scaled()
        generator = self._start(labels)
        held = None
        if self._needs_held_out_rows():
            rows, held = rows.split(self.validation_fraction, generator)
            held = held.repeated()
        training = self._begin(rows, generator)
        patience = self.n_iter_no_change if self.early_stopping else None
        training.run(rows, held, max_epochs=self.max_epochs, patience=patience)
        return self._finish(training, held)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train for one epoch on X and y, then move the ratios once. Class ratios use all data so far.

        If y has classes or tags and may lack some of them, pass all `classes` to the first call. Nothing
        is held out, so `early_stopping`, `thresholds="tuned"` and `adapt="prevalence"` need `fit`. So does
        `loss="db"`, which weighs by the class counts of all data. Sample weights are not rescaled, so they
        are comparable over all calls: 1 is an ordinary sample.
        """
        if self._needs_held_out_rows():
            raise ValueError(
                'early_stopping, thresholds="tuned" and adapt="prevalence" hold rows out: call fit'
            )
        if isinstance(self.loss, str) and needs_counts(self.loss):
            raise ValueError(f'loss="{self.loss}" weighs by the class counts of all data: call fit')
        is_first = not self.__sklearn_is_fitted__()
        X, y = validated(self, X, y, reset=is_first)
        if is_first:
            labels = EstimatorLabels.of(y, classes)
            rows = _rows(X, labels.encode(y), sample_weight)
            training = self._begin(rows, self._start(labels))
        else:
            training = self._training
            rows = _rows(X, self._labels.encode(y), sample_weight)
            training.add_label_weights(rows)
        training.run_epoch(rows)
        return self._finish(training, None)

    def decision_function(self, X: Any) -> np.ndarray:
        """Logits (N, C), or (N,) for two classes: positive if the second class is more likely."""
        logits = self._logits(X)
        if not self._labels.binary:
            return logits.numpy()
        log_p = torch.nn.functional.logsigmoid(logits)
        return (log_p[:, 1] - log_p[:, 0]).numpy()

    def predict_proba(self, X: Any) -> Any:
        """Probabilities (N, C): one per label, or one per class with a sum of one.

        They hold for the ratios in training, not for the ratios of the data.
        """
        probabilities = self._probabilities(self._logits(X))
        return self._labels.framed(probabilities.numpy(), X)

    def predict(self, X: Any) -> Any:
        """Labels (N, C) of 0 and 1, or the class (N,) of each sample."""
        logits = self._logits(X)
        probabilities = self._probabilities(logits).numpy()
        rule = self._rule()
        if self._labels.multilabel and rule is not None and rule.top is not None:
            return self._labels.framed(rule.labels(logits, None).numpy().astype(np.int64), X)
        if self._labels.multilabel:
            return self._labels.framed((probabilities >= self.thresholds_).astype(np.int64), X)
        index = logits.argmax(dim=1).numpy()
        if self._labels.binary:
            index = (probabilities[:, 1] >= self.thresholds_[1]).astype(np.int64)
        classes: np.ndarray = self._labels.classes[index]
        return classes

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_training") and self._training.network.is_finite()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def _needs_held_out_rows(self) -> bool:
        rule = self._rule()
        fits = rule is not None and rule.top is None
        return bool(self.early_stopping or fits or self.adapt == "prevalence")

    def _rule(self) -> DecisionRule | None:
        """The rule that thresholds are fitted for; None if the thresholds are given."""
        if self.decide is not None:
            return DecisionRule.parse(self.decide)
        return DecisionRule() if is_tuned(self.thresholds) else None

    def _start(self, labels: EstimatorLabels) -> torch.Generator:
        check_options(self.get_params(deep=False), labels)
        self._labels = labels
        self.classes_ = labels.classes
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return torch.Generator().manual_seed(seed)

    def _begin(self, rows: TrainingRows, generator: torch.Generator) -> Training:
        label_weights = rows.label_weights()
        counts = as_counts(label_weights)
        loss = build_loss(self.loss, counts) if isinstance(self.loss, str) else self.loss
        self.criterion_ = PartialLabelMasking(
            counts,
            loss=loss,
            rate=self.rate,
            adapt=self.adapt,
            initial_ratio=self.initial_ratio,
            ratio_range=self.ratio_range,
            epochs=min(self.max_epochs, _USUAL_EPOCHS) if self.early_stopping else self.max_epochs,
            expected=self.expected,
            generator=generator,
        )
        hidden = hidden_sizes(self.hidden_layer_sizes)
        sizes = [rows.features.shape[1], *hidden, rows.targets.shape[1]]
        return Training(
            Perceptron(sizes, generator),
            self.criterion_,
            label_weights=label_weights,
            lr=self.learning_rate,
            decay=self.weight_decay,
            batch_size=self.batch_size,
            single_label=not self._labels.multilabel,
            generator=generator,
        )

    def _finish(self, training: Training, held: TrainingRows | None) -> Self:
        self.loss_curve_ = training.losses
        self.ratio_curve_ = torch.stack(training.ratios).numpy()
        self.n_iter_ = len(training.losses)
        self.validation_scores_ = training.scores
        self.thresholds_ = np.full(len(self.classes_), 0.5 if is_tuned(self.thresholds) else self.thresholds)
        rule = self._rule()
        if held is not None and rule is not None:
            columns = slice(1, None) if self._labels.binary else slice(None)
            probabilities = self._probabilities(training.network.predict(held.features))
            fitted = rule.fit(probabilities[:, columns], held.targets[:, columns])
            if fitted is not None:
                self.thresholds_[columns] = fitted.numpy()
        self._training = training  # last: it marks the estimator as fitted
        return self

    def _logits(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        return self._training.network.predict(X)

    def _probabilities(self, logits: Tensor) -> Tensor:
        if self._labels.multilabel:
            return logits.sigmoid()
        # One-against-rest probabilities, scaled to a sum of one.
        return torch.nn.functional.logsigmoid(logits).softmax(dim=1)


def _rows(X: Any, targets: Tensor, sample_weight: Any) -> TrainingRows:
    rows = TrainingRows(X, targets, None)
    if sample_weight is None:
        return rows
    return rows.weighted(_check_sample_weight(sample_weight, X, ensure_non_negative=True))
