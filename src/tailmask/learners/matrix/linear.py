"""L2 logistic regression, one label against the rest."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tailmask._util.cores import in_threads
from tailmask._util.messages import UserError, require
from tailmask._util.registry import Option, word
from tailmask.learners.matrices import Array, Matrix, as_targets, check_matrix, prior_logits
from tailmask.learners.matrix.inner_folds import inner_cuts
from tailmask.learners.matrix.matrix_learner import MatrixLearner, Model
from tailmask.learners.protocol import NEVER, Deadline
from tailmask.learners.stored_models import take
from tailmask.masking.ratio_track import Masking, RatioTrack

__all__ = ["LinearLearner", "LinearModel", "fit_linear", "fit_masked_linear"]

_GRID = (1.0, 0.1, 10.0)  # 1 first: with a short deadline there is no time for more
_HALF_STEP = 3.0
# C is chosen on labels with at least this many positives and negatives, and on at most this many labels.
_ENOUGH, _MOST_LABELS = 12, 40
# The number of folds. With more rows than the second number, only the first fold is held out.
_FOLDS, _FEW_ROWS = 4, 3000
_ITERATIONS = 500
_TOLERANCE = 1e-4  # scikit-learn's default, here for a label that half of the rows have


@dataclass(frozen=True)
class LinearModel:
    """A weight per feature and label; see `fit_linear`."""

    weights: Array  # (F, C) float32
    bias: Array  # (C,) float32
    C: float

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of features and classes."""
        return len(self.weights), len(self.bias)

    def logits(self, matrix: Matrix) -> Tensor:
        """The logits of all labels: (N, C) float32."""
        matrix = check_matrix(matrix, missing=False, features=len(self.weights))
        return torch.from_numpy(np.asarray(matrix @ self.weights + self.bias, dtype=np.float32))

    def arrays(self) -> dict[str, Array]:
        """The arrays to store; `from_arrays` takes them back."""
        return {"weights": self.weights, "bias": self.bias, "C": np.array(self.C)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> LinearModel:
        """The model from stored arrays; damaged ones are refused."""
        bias = take(arrays, "bias", dtype=np.float32, shape=(None,))
        weights = take(arrays, "weights", dtype=np.float32, shape=(None, len(bias)))
        strength = float(take(arrays, "C", dtype=np.float64, shape=()))
        if strength <= 0:
            raise UserError(f"the stored C is {strength} but must be above 0: fit the model again")
        return cls(weights, bias, strength)


def fit_linear(
    matrix: Matrix,
    targets: Array,
    *,
    seed: int,
    C: float | None = None,  # noqa: N803  the name that the field and scikit-learn use
    pos_power: float = 0.0,
    label_weights: Array | None = None,
    start: LinearModel | None = None,
    deadline: Deadline = NEVER,
    threads: int | None = None,
) -> LinearModel:
    """Fit one logistic regression per label; unknown labels are left out of their label's fit.

    Positives weigh (negatives / positives)^`pos_power`, times the weight of the single label in
    `label_weights` (N, C); a label of weight 0 counts as unknown. A class with one value only gets the logit
    of its smoothed prevalence. The optimisation starts from the model `start`.

    All labels have the same `C`. By default it is the `C` of `start`, else the one with the lowest mean
    log-loss on held-out rows. First 0.1, 1 and 10 are tried. If the best is at the edge, one step further is
    tried, and then a third and three times the best. Labels with fewer than 12 positives or negatives do not
    count; if all have fewer, C is 1. Average precision is too noisy for this choice: C would differ between
    folds, and so would the scale of their logits.

    The choice of C takes at most a third of the time to `deadline`. Labels that are not started by the
    deadline keep the weights of `start`, else get the logit of their prevalence.

    >>> x = np.arange(-5, 5, dtype=np.float32)[:, None]
    >>> model = fit_linear(x, (x > 0).astype(np.int8), C=1.0, seed=0)
    >>> model.logits(x).shape, bool(model.weights[0, 0] > 0)
    (torch.Size([10, 1]), True)
    """
    problem = _Problem.of(matrix, targets, pos_power=pos_power, label_weights=label_weights, start=start)
    if C is not None and not C > 0:
        raise ValueError(f"C must be above 0, got {C}")
    strength = C if C is not None else None if start is None else start.C
    with warnings.catch_warnings(), require("threadpoolctl", extra="cli").threadpool_limits(1):
        warnings.filterwarnings(
            "ignore", category=require("sklearn.exceptions", extra="cli").ConvergenceWarning
        )
        if strength is None:
            strength = _choose(problem, seed=seed, deadline=deadline.part(1 / 3), threads=threads)
        return _fit_all(problem, strength, deadline=deadline, threads=threads)


def fit_masked_linear(
    matrix: Matrix,
    targets: Array,
    masking: Masking,
    *,
    seed: int,
    C: float | None = None,  # noqa: N803  as in `fit_linear`
    pos_power: float = 0.0,
    deadline: Deadline = NEVER,
    threads: int | None = None,
) -> tuple[LinearModel, RatioTrack]:
    """Fit with Partial Label Masking: each label's weight is its keep probability (Eq. 3 in expectation).

    Models of inner folds are fitted repeatedly, each starting from its last weights. Their outputs for the
    held-out rows move the ratios. The returned model is fitted on all rows with the last ratios.
    Add `RatioTrack.prior_shift` to its logits to get those for the prevalence of the data. `C` is chosen
    before anything is masked. The other arguments are those of `fit_linear`.

    >>> x = np.arange(-8, 8, dtype=np.float32)[:, None]
    >>> model, track = fit_masked_linear(x, (x > 3).astype(np.int8), Masking(), C=1.0, seed=0)
    >>> model.logits(x).shape, track.num_updates
    (torch.Size([16, 1]), 8)
    """
    matrix = check_matrix(matrix, missing=False)
    targets = as_targets(targets, matrix.shape[0])
    options: dict[str, Any] = {"seed": seed, "pos_power": pos_power, "threads": threads}
    plain = fit_linear(matrix, targets, C=C, deadline=deadline.part(1 / 3), **options)
    track = RatioTrack(masking, targets)
    cuts = inner_cuts(targets, seed=seed)
    models: list[LinearModel | None] = [None] * len(cuts)
    half_time = deadline.part(1 / 2)
    for _ in range(masking.updates if cuts else 0):
        if half_time.passed:
            break
        weights = track.label_weights(targets)
        models = [
            fit_linear(
                matrix[kept], targets[kept], C=plain.C, label_weights=weights[kept], start=start, **options
            )
            for (kept, _), start in zip(cuts, models, strict=True)
        ]
        outputs = [model.logits(matrix[held]) for (_, held), model in zip(cuts, models, strict=True) if model]
        track.update(torch.cat(outputs), targets[np.concatenate([held for _, held in cuts])])
    if bool((track.keep == 1).all()):
        return plain, track
    weights = track.label_weights(targets)
    model = fit_linear(matrix, targets, C=plain.C, label_weights=weights, deadline=deadline, **options)
    return model, track


@word(
    "linear",
    kind="learner",
    implies="bce",
    summary="logistic regression, one per label",
)
@dataclass(frozen=True)
class LinearLearner(MatrixLearner):
    """Logistic regression on scaled features, one per label, with an L2 penalty.

    Strong on texts and on tables with many features, and fast. All labels have the same `C`, which is chosen
    on held-out rows. With a pretrained model's features of texts, it also learns from the words.

    >>> from tailmask.data.rows import Rows
    >>> rows = Rows(np.arange(20.0)[:, None], np.arange(20)[:, None] > 9)
    >>> fitted = LinearLearner(C=1.0).fit(rows, seed=0)
    >>> (fitted.logits(rows)[:, 0] > 0).sum()
    tensor(10)

    Args:
        C: Inverse strength of the penalty. By default the best of 0.003 to 300 on held-out rows.
        pos_power: Positives weigh (negatives / positives) to this power.
        masking: How to mask labels; None masks none.
    """

    model = LinearModel
    form = "scaled"
    words = True

    C: Annotated[float | None, Option(above=0)] = None
    pos_power: Annotated[float, Option(minimum=0, maximum=1)] = 0.0
    masking: Masking | None = None

    def fit_model(self, inputs: dict[str, Any], *, categorical: Sequence[int]) -> tuple[Model, Array | None]:
        options: dict[str, Any] = {"C": self.C, "pos_power": self.pos_power}
        shift = _unweighted(inputs["targets"], self.pos_power)
        if self.masking is None:
            return fit_linear(**inputs, **options), shift
        model, track = fit_masked_linear(**inputs, **options, masking=self.masking)
        unmasked = track.prior_shift.numpy()
        return model, unmasked if shift is None else unmasked + shift


@dataclass(frozen=True)
class _Problem:
    """The checked inputs of a fit."""

    matrix: Matrix
    targets: npt.NDArray[np.int8]
    weights: Array | None  # (N, C) float32
    positive_weight: Array  # (C,)
    start: LinearModel

    @classmethod
    def of(
        cls,
        matrix: Matrix,
        targets: Array,
        *,
        pos_power: float,
        label_weights: Array | None,
        start: LinearModel | None,
    ) -> _Problem:
        matrix = check_matrix(matrix, missing=False)
        targets = as_targets(targets, matrix.shape[0])
        shape = (matrix.shape[1], targets.shape[1])
        if label_weights is not None:
            label_weights = np.asarray(label_weights, dtype=np.float32)
            if (
                label_weights.shape != targets.shape
                or not (np.isfinite(label_weights) & (label_weights >= 0)).all()
            ):
                raise ValueError(f"label weights must be finite, ≥ 0 and of the shape {targets.shape}")
            targets = np.where(label_weights > 0, targets, -1).astype(np.int8)
        if start is not None and start.weights.shape != shape:
            raise ValueError(
                f"the model to start from has the shape {start.weights.shape}, but {shape} is needed"
            )
        positives, negatives = (targets == 1).sum(0), (targets == 0).sum(0)
        positive_weight = (np.maximum(negatives, 1) / np.maximum(positives, 1)) ** pos_power
        if start is None:
            start = LinearModel(np.zeros(shape, np.float32), prior_logits(targets).astype(np.float32), 1.0)
        return cls(matrix, targets, label_weights, positive_weight, start)

    def labels_with(self, count: int) -> npt.NDArray[np.int64]:
        """The labels with at least this many known positives and negatives."""
        return np.flatnonzero(np.minimum((self.targets == 1).sum(0), (self.targets == 0).sum(0)) >= count)

    def fit_label(
        self, label: int, rows: Array, *, strength: float, coefficients: tuple[Array, float]
    ) -> tuple[Array, float]:
        """Weights (F,) and bias of one label, fitted on some rows, starting from given coefficients."""
        labels = self.targets[rows, label]
        weights = np.where(labels == 1, self.positive_weight[label], 1.0)
        if self.weights is not None:
            weights = weights * self.weights[rows, label]
        # scikit-learn compares the gradient of the mean loss with `tol`. Rare positives hardly move that
        # mean: with the same `tol` for all labels, a rare label would end where it starts, at its prevalence.
        share = min(weights[labels == 1].sum(), weights[labels == 0].sum()) / weights.sum()
        model = require("sklearn.linear_model", extra="cli").LogisticRegression(
            C=strength, solver="lbfgs", max_iter=_ITERATIONS, tol=_TOLERANCE * 2 * share, warm_start=True
        )
        model.coef_, model.intercept_ = coefficients[0][None], np.array([coefficients[1]])
        model.classes_ = np.array([0, 1])
        matrix = self.matrix if len(rows) == self.matrix.shape[0] else self.matrix[rows]
        model.fit(matrix, labels, sample_weight=weights)
        return model.coef_[0], float(model.intercept_[0])


def _fit_all(problem: _Problem, strength: float, *, deadline: Deadline, threads: int | None) -> LinearModel:
    learnable = problem.labels_with(1)
    weights, bias = np.zeros_like(problem.start.weights), prior_logits(problem.targets).astype(np.float32)
    weights[:, learnable], bias[learnable] = (
        problem.start.weights[:, learnable],
        problem.start.bias[learnable],
    )

    def fit(label: int) -> None:
        if not deadline.passed:
            weights[:, label], bias[label] = problem.fit_label(
                label,
                np.flatnonzero(problem.targets[:, label] >= 0),
                strength=strength,
                coefficients=(weights[:, label], float(bias[label])),
            )

    in_threads(fit, learnable, threads)
    return LinearModel(weights, bias, strength)


def _choose(problem: _Problem, *, seed: int, deadline: Deadline, threads: int | None) -> float:
    """The C with the lowest mean log-loss on held-out rows; an unfinished score does not count."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(problem.labels_with(_ENOUGH))[:_MOST_LABELS]
    cuts = [(int(label), *cut) for label in labels for cut in _cuts(problem.targets[:, label], generator)]
    scores: dict[float, float] = {}

    def score(strength: float) -> None:
        def one(cut: tuple[int, Array, Array]) -> float | None:
            return None if deadline.passed else _held_out_score(problem, cut, strength=strength)

        found = in_threads(one, cuts, threads)
        finished = [value for value in found if value is not None]
        if finished and len(finished) == len(cuts):
            scores[strength] = float(np.mean(finished))

    def best() -> float:
        return max(scores, key=scores.__getitem__, default=1.0)

    for strength in _GRID:
        score(strength)
    if len(scores) == len(_GRID) and best() in (min(_GRID), max(_GRID)):
        score(best() / 10 if best() < 1 else best() * 10)
    center = best()
    for strength in (center * _HALF_STEP, center / _HALF_STEP):
        score(strength)
    return best()


def _cuts(labels: Array, generator: np.random.Generator) -> list[tuple[Array, Array]]:
    """Kept and held-out rows of one label, stratified: all folds if there are few rows, else one of them."""
    fold = np.full(len(labels), -1)
    for side in (0, 1):
        rows = generator.permutation(np.flatnonzero(labels == side))
        fold[rows] = np.arange(len(rows)) % _FOLDS
    used = _FOLDS if len(labels) <= _FEW_ROWS else 1
    return [(np.flatnonzero((fold >= 0) & (fold != i)), np.flatnonzero(fold == i)) for i in range(used)]


def _held_out_score(problem: _Problem, cut: tuple[int, Array, Array], *, strength: float) -> float:
    """The negative log-loss on the held-out rows of a cut."""
    label, kept, held_out = cut
    first = (problem.start.weights[:, label], float(problem.start.bias[label]))
    weights, bias = problem.fit_label(label, kept, strength=strength, coefficients=first)
    outputs = problem.matrix[held_out] @ weights + bias
    labels = problem.targets[held_out, label]
    return -float(np.logaddexp(0, np.where(labels == 1, -outputs, outputs)).mean())


def _unweighted(targets: Array, pos_power: float) -> Array | None:
    """The shift that undoes the weights of the positives: minus the log of the weight, (C,)."""
    if pos_power == 0.0:
        return None
    positives, negatives = (targets == 1).sum(0), (targets == 0).sum(0)
    has_both = (positives > 0) & (negatives > 0)  # a class with one value is fitted without weights
    ratio = np.where(has_both, negatives, 1) / np.where(has_both, positives, 1)
    shift: Array = (-pos_power * np.log(ratio)).astype(np.float32)
    return shift
