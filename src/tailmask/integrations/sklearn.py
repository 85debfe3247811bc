"""Partial Label Masking as a scikit-learn estimator, and around any that takes sample weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from tailmask._util.messages import require
from tailmask.calibration import DecisionRule
from tailmask.integrations.tabular.estimator_labels import EstimatorLabels, check_column, is_multilabel
from tailmask.integrations.tabular.estimator_options import (
    build_loss,
    check_options,
    hidden_sizes,
    is_tuned,
    needs_counts,
)
from tailmask.integrations.tabular.multi_output import PLMMultiOutputClassifier
from tailmask.integrations.tabular.perceptron import Perceptron
from tailmask.integrations.tabular.training import Training, TrainingRows, as_counts
from tailmask.masking import PartialLabelMasking

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_consistent_length, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ModuleNotFoundError:
    require("sklearn", extra="sklearn")
    raise  # where it is something else that is missing

__all__ = ["PLMClassifier", "PLMMultiOutputClassifier"]

# Those of the recipe for tables: how long a fit is thought to be that may stop early.
_USUAL_EPOCHS = 60


class PLMClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Multi-layer perceptron trained with Partial Label Masking, for imbalanced classes.

    For multi-label targets (a column of 0 and 1 for each of several labels, −1 or NaN where unknown) and for
    one class a sample, of two or more; a single column holds classes, of which none is unknown. With `rate=0`
    it is a plain perceptron, so a grid over `rate=[0, None]` says whether masking helps. Features should be
    scaled as for any perceptron.

    >>> X, Y = np.eye(4), np.array([[1, 0], [1, 0], [1, 1], [0, 1]])
    >>> PLMClassifier(max_epochs=200, random_state=0).fit(X, Y).predict(X)
    array([[1, 0],
           [1, 0],
           [1, 1],
           [0, 1]])

    Args:
        rate: λ of the paper's Eq. 7, how fast the ratios move; None is 0.01, and for `adapt="prevalence"`
            what `PartialLabelMasking` has for `max_epochs` (with `early_stopping`, for 60 at most).
        loss: Name of a loss in the [method grammar](methods.md), such as "focal", with options after a colon,
            as in "asl:detach=false"; or an elementwise loss (logits, targets) → (N, C).
        adapt: As in `PartialLabelMasking`; "prevalence" takes its statistics from a part of the data that is
            held out, and leaves the ratios as they are for the first half of `max_epochs` (with
            `early_stopping`, of 60 at most).
        initial_ratio: As in `PartialLabelMasking`.
        ratio_range: As in `PartialLabelMasking`.
        expected: As in `PartialLabelMasking`.
        hidden_layer_sizes: Width of each hidden layer, a number where there is one; () is a linear model.
        max_epochs: Passes over the data.
        batch_size: Samples a step.
        learning_rate: Of AdamW.
        weight_decay: Of AdamW.
        thresholds: Probability from which on a label is predicted, or "tuned": fitted for F1 on a part of the
            data that is held out. For multi-label targets, and for the second of two classes.
        decide: What thresholds are fitted for on a part of the data that is held out: "f1" (as
            `thresholds="tuned"`), "precision=0.9", "recall=0.8", "cost=5" (a miss costs five false alarms),
            or for multi-label targets "top=3" (three labels per sample); see
            `tailmask.calibration.DecisionRule`.
        early_stopping: Hold out a part of the data, stop when its mean F1 over classes has not risen for
            `n_iter_no_change` epochs, counted from when the ratios may move, and take the weights and ratios
            of the best epoch.
        validation_fraction: Share of the data that is held out where something needs it.
        n_iter_no_change: Patience of `early_stopping`, in epochs.
        random_state: Seed of the initial weights, the order of the samples, the masks and the held-out part.

    Attributes:
        classes_: Classes of y; column numbers for multi-label targets.
        criterion_: The `PartialLabelMasking` after training; `criterion_.target_ratio` are the ratios.
        thresholds_: Thresholds of the classes.
        loss_curve_: Mean loss of each epoch.
        ratio_curve_: Ratios (C,) that each epoch was trained at.
        validation_scores_: Mean F1 of each epoch on what is held out, with `early_stopping`.
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

        Sample weights count a sample more or less, in the loss, the class ratios and what is held out; only
        how they relate to each other matters.
        """
        self.__dict__.pop("_training", None)  # an estimator whose fit fails is not fitted
        X, y = self._validate(X, y, reset=True)
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
        """Train for one epoch on X and y, then move the ratios once; class ratios are of all data so far.

        The first call names all `classes` where y is one class a sample and may lack some of them. Nothing is
        held out, so `early_stopping`, `thresholds="tuned"` and `adapt="prevalence"` need `fit`; so does
        `loss="db"`, which weighs by the class counts of all data. Sample weights are taken as they are, so
        that they compare over all calls: 1 is an ordinary sample.
        """
        if self._needs_held_out_rows():
            raise ValueError(
                'early_stopping, thresholds="tuned" and adapt="prevalence" hold rows out: call fit'
            )
        if isinstance(self.loss, str) and needs_counts(self.loss):
            raise ValueError(f'loss="{self.loss}" weighs by the class counts of all data: call fit')
        is_first = not self.__sklearn_is_fitted__()
        X, y = self._validate(X, y, reset=is_first)
        if is_first:
            labels = EstimatorLabels.of(y if classes is None or is_multilabel(y) else classes)
            rows = _rows(X, labels.encode(y), sample_weight)
            training = self._begin(rows, self._start(labels))
        else:
            training = self._training
            rows = _rows(X, self._labels.encode(y), sample_weight)
            training.add_label_weights(rows)
        training.run_epoch(rows)
        return self._finish(training, None)

    def decision_function(self, X: Any) -> np.ndarray:
        """Logits (N, C), or for two classes (N,), positive where the second one is the likelier."""
        logits = self._logits(X)
        if not self._labels.binary:
            return logits.numpy()
        log_p = torch.nn.functional.logsigmoid(logits)
        return (log_p[:, 1] - log_p[:, 0]).numpy()

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (N, C): of each label by itself, or of the classes, which sum to one.

        They hold under the ratios that the network was trained at, not under the data's own.
        """
        return self._probabilities(self._logits(X)).numpy()

    def predict(self, X: Any) -> np.ndarray:
        """Labels (N, C) of 0 and 1, or the class (N,) of each sample."""
        logits = self._logits(X)
        probabilities = self._probabilities(logits).numpy()
        rule = self._rule()
        if self._labels.multilabel and rule is not None and rule.top is not None:
            return rule.labels(logits, None).numpy().astype(np.int64)
        if self._labels.multilabel:
            return (probabilities >= self.thresholds_).astype(np.int64)
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

    def _validate(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        options = {"accept_sparse": "csr", "dtype": np.float32, "reset": reset}
        if not is_multilabel(y):
            check_column(y)
            X, y = validate_data(self, X, y, **options)
            check_classification_targets(y)
            return X, y
        X = validate_data(self, X, **options)  # scikit-learn would refuse labels that are unknown
        check_consistent_length(X, y)
        return X, y

    def _needs_held_out_rows(self) -> bool:
        rule = self._rule()
        fits = rule is not None and rule.top is None
        return bool(self.early_stopping or fits or self.adapt == "prevalence")

    def _rule(self) -> DecisionRule | None:
        """What thresholds are fitted for; None where they are given."""
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
            rate=self.learning_rate,
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
        self._training = training  # last: it says that this is fitted
        return self

    def _logits(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        return self._training.network.predict(X)

    def _probabilities(self, logits: Tensor) -> Tensor:
        if self._labels.multilabel:
            return logits.sigmoid()
        # The outputs, each a class against the others, scaled to sum to one.
        return torch.nn.functional.logsigmoid(logits).softmax(dim=1)


def _rows(X: Any, targets: Tensor, sample_weight: Any) -> TrainingRows:
    rows = TrainingRows(X, targets, None)
    if sample_weight is None:
        return rows
    return rows.weighted(_check_sample_weight(sample_weight, X, ensure_non_negative=True))
