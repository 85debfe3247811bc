"""The base of learners that fit a model on one matrix: encoder, fit, prior shift and storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask._util.registry import find_words
from tailmask.calibration import apply_prior_shift
from tailmask.data.encoders.columns import Form
from tailmask.data.encoders.text import MOST_TERMS
from tailmask.data.rows import Rows
from tailmask.learners.matrices import Array, Matrix
from tailmask.learners.matrix.row_encoders import RowEncoder, check_width, encoder_from_json, fit_encoder
from tailmask.learners.protocol import NEVER, Deadline, FitProgress, silent
from tailmask.learners.stored_models import Stored, prefixed, save_fitted, take, without_prefix

__all__ = ["FittedModel", "MatrixLearner", "Model"]

_SHIFT = "prior_shift"

# Rare pairs of words help linear models: on GoEmotions' validation split, all 66,000 terms instead of 20,000
# gave 1.3 points of F1 and 0.7 of mAP. With many labels there are fewer terms, which keeps the model small.
_TERMS, _WEIGHTS = 100_000, 2**25


class Model(Protocol):
    """A fitted model on a matrix."""

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of features and classes."""
        ...

    def logits(self, matrix: Matrix) -> Tensor:
        """The logits (N, C) in float32."""
        ...

    def arrays(self) -> dict[str, Array]:
        """The arrays to store; `from_arrays` takes them back."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """The model from stored arrays; a UserError if they are damaged."""
        ...


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model on encoded rows, with its encoder and the shift back to the prevalence of the data."""

    learner: str  # the word of its learner
    encoder: RowEncoder
    model: Model
    prior_shift: Array | None = None  # (C,) float32, added to the model's logits

    def __post_init__(self) -> None:
        features, classes = self.model.size
        check_width(self.encoder, (features,))
        if self.prior_shift is not None and self.prior_shift.shape != (classes,):
            raise UserError(f"the prior shift must have one value for each of the {classes} classes")

    def logits(self, rows: Rows) -> Tensor:
        """The logits (N, C) for the prevalence of the data."""
        logits = self.model.logits(self.encoder.encode(rows))
        if self.prior_shift is None:
            return logits
        return apply_prior_shift(logits, torch.from_numpy(self.prior_shift))

    def save(self, folder: Path) -> None:
        """Write the encoder and the arrays of the model."""
        arrays = prefixed("model", self.model.arrays())
        if self.prior_shift is not None:
            arrays[_SHIFT] = self.prior_shift
        save_fitted(folder, self.learner, fields={"encoder": self.encoder.to_json()}, arrays=arrays)

    @classmethod
    def from_stored(cls, stored: Stored) -> FittedModel:
        """The fitted model from what `save` wrote."""
        shift = None
        if _SHIFT in stored.arrays:
            shift = take(stored.arrays, _SHIFT, dtype=np.float32, shape=(None,))
        learner: Any = find_words()[stored.kind].builder
        model = learner.model.from_arrays(without_prefix("model", stored.arrays))
        return cls(stored.kind, encoder_from_json(stored.fields["encoder"]), model, shift)


class MatrixLearner:
    """A learner that fits an encoder on its rows, and then a model on the matrix.

    A subclass names the class of its model and fits the model in `fit_model`. Its `form` says how the encoder
    scales. Its `words` says whether it learns from texts besides a pretrained model's features.
    """

    declared_as: ClassVar[str]  # its word, set by `@word`
    model: ClassVar[type[Model]]
    form: ClassVar[Form] = "raw"
    words: ClassVar[bool] = False

    fitted = FittedModel

    def fit(
        self,
        rows: Rows,
        *,
        seed: int,
        workdir: Path | None = None,
        deadline: Deadline = NEVER,
        progress: FitProgress = silent,
    ) -> FittedModel:
        """Fit the encoder and the model; nothing is kept in `workdir`."""
        terms = max(MOST_TERMS, min(_TERMS, _WEIGHTS // rows.labelled.shape[1]))
        encoder = fit_encoder(rows, self.form, text_terms=terms, words=self.words)
        inputs: dict[str, Any] = {
            "matrix": encoder.encode(rows),
            "targets": rows.labelled,
            "seed": seed,
            "deadline": deadline,
        }
        model, shift = self.fit_model(inputs, categorical=encoder.categorical)
        return FittedModel(self.declared_as, encoder, model, shift)

    def fit_model(self, inputs: dict[str, Any], *, categorical: Sequence[int]) -> tuple[Model, Array | None]:
        """The model on `inputs` (matrix, targets, seed, deadline), and the prior shift of its logits (C,)."""
        raise NotImplementedError
