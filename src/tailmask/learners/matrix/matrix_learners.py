"""Logistic regression, extremely randomised trees and LightGBM as learners: encoder, fit and storage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask._util.registry import Option, word
from tailmask.calibration import apply_prior_shift
from tailmask.data.encoders.columns import Form
from tailmask.data.rows import Rows
from tailmask.learners.arrays import Array, take
from tailmask.learners.base import NEVER, Deadline, Progress
from tailmask.learners.matrix.boosters import Boosters, fit_boosters, fit_masked_boosters
from tailmask.learners.matrix.forest import Forest, fit_forest
from tailmask.learners.matrix.linear import LinearModel, fit_linear, fit_masked_linear
from tailmask.learners.matrix.row_encoders import RowEncoder, encoder_from_json, fit_encoder
from tailmask.learners.storage import Stored, save_fitted
from tailmask.masking.ratio_track import Masking

__all__ = ["BoostLearner", "FittedModel", "ForestLearner", "LinearLearner"]

Model: TypeAlias = LinearModel | Forest | Boosters

_KINDS: dict[str, type[Model]] = {"linear": LinearModel, "trees": Forest, "boost": Boosters}
_SHIFT = "prior_shift"


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model on encoded rows, with its encoder and the shift back to the data's own prevalence."""

    encoder: RowEncoder
    model: Model
    prior_shift: Array | None = None  # (C,) float32, added to the model's logits

    def __post_init__(self) -> None:
        features, classes = _size(self.model)
        if features != self.encoder.width:
            raise UserError(
                f"the encoder gives {self.encoder.width} columns but the model takes {features}: "
                "the files belong to different fits"
            )
        if self.prior_shift is not None and self.prior_shift.shape != (classes,):
            raise UserError(f"the prior shift must have one value for each of the {classes} classes")

    def logits(self, rows: Rows) -> Tensor:
        """The logits (N, C) under the data's own prevalence."""
        logits = self.model.logits(self.encoder.encode(rows))
        if self.prior_shift is None:
            return logits
        return apply_prior_shift(logits, torch.from_numpy(self.prior_shift))

    def save(self, folder: Path) -> None:
        """Write the encoder and the arrays of the model."""
        arrays = {f"model.{name}": array for name, array in self.model.arrays().items()}
        if self.prior_shift is not None:
            arrays[_SHIFT] = self.prior_shift
        kind = next(name for name, each in _KINDS.items() if isinstance(self.model, each))
        save_fitted(folder, kind, fields={"encoder": self.encoder.to_json()}, arrays=arrays)

    @classmethod
    def from_stored(cls, stored: Stored) -> FittedModel:
        """The fitted model from what `save` wrote."""
        arrays = {
            name.removeprefix("model."): array
            for name, array in stored.arrays.items()
            if name.startswith("model.")
        }
        shift = None
        if _SHIFT in stored.arrays:
            shift = take(stored.arrays, _SHIFT, dtype=np.float32, shape=(None,))
        return cls(
            encoder_from_json(stored.fields["encoder"]), _KINDS[stored.kind].from_arrays(arrays), shift
        )


@word(
    "linear",
    kind="learner",
    implies="bce",
    summary="logistic regression, one per label",
)
@dataclass(frozen=True)
class LinearLearner:
    """Logistic regression on scaled features, one per label, with an L2 penalty.

    Strong on texts and on tables with many features, and fast. One `C` serves all labels; it is chosen on
    rows that the learner holds out of those that it is given.

    >>> rows = Rows(np.arange(20.0)[:, None], np.arange(20)[:, None] > 9)
    >>> fitted = LinearLearner(C=1.0).fit(rows, seed=0)
    >>> (fitted.logits(rows)[:, 0] > 0).sum()
    tensor(10)

    Args:
        C: Inverse strength of the penalty. By default 0.1, 1 or 10, chosen on held-out rows.
        pos_power: Positives weigh (negatives / positives) to this power.
        masking: How to mask labels; None masks none.
    """

    C: Annotated[float | None, Option(above=0)] = None
    pos_power: Annotated[float, Option(minimum=0, maximum=1)] = 0.0
    masking: Masking | None = None

    def fit(
        self,
        rows: Rows,
        *,
        seed: int,
        workdir: Path | None = None,
        deadline: Deadline = NEVER,
        progress: Progress | None = None,
    ) -> FittedModel:
        """Fit the encoder and one regression per class; nothing is kept in `workdir`."""
        encoder, inputs = _encoded(rows, "scaled", seed, deadline)
        options: dict[str, Any] = {"C": self.C, "pos_power": self.pos_power}
        shift = _unweighted(rows.labelled, self.pos_power)
        if self.masking is None:
            return FittedModel(encoder, fit_linear(**inputs, **options), shift)
        model, track = fit_masked_linear(**inputs, **options, masking=self.masking)
        unmasked = track.prior_shift.numpy()
        return FittedModel(encoder, model, unmasked if shift is None else unmasked + shift)


@word(
    "trees",
    kind="learner",
    implies="bce",
    summary="extremely randomised trees, one forest for all labels",
    not_with={"plm": "a tree splits by all labels at once, so single labels cannot be masked"},
)
@dataclass(frozen=True)
class ForestLearner:
    """Extremely randomised trees (Geurts et al. 2006) on raw features, one forest for all labels.

    Strong on small tables of numbers. Trees grow with unknown labels as negatives; the shares in their leaves
    count known labels only.

    >>> rows = Rows(np.arange(20.0)[:, None], np.arange(20)[:, None] > 9)
    >>> (ForestLearner(trees=5).fit(rows, seed=0).logits(rows)[:, 0] > 0).sum()
    tensor(10)

    Args:
        trees: Number of trees.
        min_samples_leaf: The least number of rows in a leaf.

    Paper:
        Geurts, Ernst, Wehenkel, [Extremely randomized trees](https://doi.org/10.1007/s10994-006-6226-1),
        Machine Learning 63, 2006
    """

    trees: Annotated[int, Option(minimum=1)] = 300
    min_samples_leaf: Annotated[int, Option(minimum=1)] = 1

    def fit(
        self,
        rows: Rows,
        *,
        seed: int,
        workdir: Path | None = None,
        deadline: Deadline = NEVER,
        progress: Progress | None = None,
    ) -> FittedModel:
        """Grow the trees; nothing is kept in `workdir`."""
        encoder, inputs = _encoded(rows, "raw", seed, deadline)
        return FittedModel(
            encoder, fit_forest(**inputs, trees=self.trees, min_samples_leaf=self.min_samples_leaf)
        )


@word(
    "boost",
    kind="learner",
    implies="bce",
    summary="gradient boosting by LightGBM, one model per label",
)
@dataclass(frozen=True)
class BoostLearner:
    """Gradient boosting by LightGBM on raw features, one model per label.

    Strong on tables with categories, dates and missing values, which it takes as they are.

    >>> rows = Rows(np.arange(60.0)[:, None], np.arange(60)[:, None] > 29)
    >>> (BoostLearner(rounds=20).fit(rows, seed=0).logits(rows)[[0, -1], 0] > 0).tolist()
    [False, True]

    Args:
        rounds: Number of trees per label.
        pos_power: Positives weigh (negatives / positives) to this power.
        masking: How to mask labels; None masks none.

    Paper:
        Ke, Meng, Finley, Wang, Chen, Ma, Ye, Liu, LightGBM: A Highly Efficient Gradient Boosting Decision
        Tree, NeurIPS 2017
    """

    rounds: Annotated[int, Option(minimum=1)] = 100
    pos_power: Annotated[float, Option(minimum=0, maximum=1)] = 0.0
    masking: Masking | None = None

    def fit(
        self,
        rows: Rows,
        *,
        seed: int,
        workdir: Path | None = None,
        deadline: Deadline = NEVER,
        progress: Progress | None = None,
    ) -> FittedModel:
        """Boost the trees; nothing is kept in `workdir`."""
        encoder, inputs = _encoded(rows, "raw", seed, deadline)
        options: dict[str, Any] = {
            "categorical": encoder.categorical,
            "pos_power": self.pos_power,
            "rounds": self.rounds,
        }
        # No prior shift: weights and masks move outputs for new rows by far less than their logarithm.
        if self.masking is None:
            return FittedModel(encoder, fit_boosters(**inputs, **options))
        return FittedModel(encoder, fit_masked_boosters(**inputs, **options, masking=self.masking)[0])


def _encoded(rows: Rows, form: Form, seed: int, deadline: Deadline) -> tuple[RowEncoder, dict[str, Any]]:
    """A fitted encoder, and the arguments that all fits on a matrix take."""
    encoder = fit_encoder(rows, form)
    inputs = {"matrix": encoder.encode(rows), "targets": rows.labelled}
    return encoder, {**inputs, "seed": seed, "deadline": deadline.moment}


def _unweighted(targets: Array, pos_power: float) -> Array | None:
    """The shift that undoes the weights of the positives: minus the log of the weight, (C,)."""
    if pos_power == 0.0:
        return None
    positives, negatives = (targets == 1).sum(0), (targets == 0).sum(0)
    has_both = (positives > 0) & (negatives > 0)  # a class with one value is fitted without weights
    ratio = np.where(has_both, negatives, 1) / np.where(has_both, positives, 1)
    shift: Array = (-pos_power * np.log(ratio)).astype(np.float32)
    return shift


def _size(model: Any) -> tuple[int, int]:
    """The numbers of features and classes that a model is for."""
    if isinstance(model, LinearModel):
        return len(model.weights), len(model.bias)
    return model.trees.features, len(model.prior if isinstance(model, Forest) else model.bias)
