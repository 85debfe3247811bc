"""A model on raw rows, such as an ensemble or trees, ready for new files and frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.data.rows import Rows
from tailmask.inference.predictor import Predictor
from tailmask.learners.trained_model import TrainedModel, is_model
from tailmask.runs.reader import Run

__all__ = ["RowPredictor", "load_predictor"]

LARGEST_BATCH = 4096


@dataclass(frozen=True, eq=False)
class RowPredictor:
    """The model of a cross-fitted run or of `tailmask fit`: from raw rows to probabilities and labels."""

    model: TrainedModel
    thresholds: Tensor | None  # (C,), on the probabilities; None where each row has one label
    is_tuned: bool  # whether the thresholds were fitted on out-of-fold outputs

    batch_size = LARGEST_BATCH

    @classmethod
    def load(cls, folder: Path | str, *, thresholds: Literal["tuned"] | float | None = None) -> RowPredictor:
        """The model in a folder; `thresholds` as for `Predictor.load`."""
        model = TrainedModel.load(Path(folder))
        tuned = model.facts.thresholds is not None
        if thresholds is None or thresholds == "tuned":
            if thresholds == "tuned" and not tuned:
                raise UserError(f"{folder} has no tuned thresholds: choose a number")
            return cls(model, model.thresholds, tuned)
        if not isinstance(thresholds, float | int) or not 0 < thresholds < 1:
            raise UserError(f"thresholds must be a number between 0 and 1 or 'tuned', got {thresholds!r}")
        if model.thresholds is None:
            raise UserError(
                f"{folder} predicts one label a row, the most probable one: thresholds do not apply"
            )
        return cls(model, torch.full_like(model.thresholds, float(thresholds)), is_tuned=False)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self.model.classes

    @property
    def header(self) -> bool:
        """Whether the tables that it reads have a line with names."""
        return bool(getattr(self.model.row_format, "header", True))

    def batches(self, path: Path | str, *, images: Path | str | None = None) -> Iterator[Rows]:
        """The rows of a file, read piece by piece."""
        if images is not None:
            raise UserError("the model was trained on a table, so there are no images: leave out --images")
        if not Path(path).exists():
            raise UserError(f"there is no file {path} to predict for")
        return self.model.row_format.pieces(Path(path), self.batch_size)

    def outputs(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Probabilities and logits (B, C) of raw rows."""
        return self.model.outputs(rows)

    def decide(self, probabilities: Tensor, logits: Tensor) -> Tensor:
        """Which labels are predicted (B, C): the most probable one, or those that reach their threshold."""
        if self.thresholds is None:
            best = logits.argmax(dim=1, keepdim=True)
            return torch.zeros_like(logits, dtype=torch.bool).scatter_(1, best, True)
        return probabilities >= self.thresholds

    def predict_proba(self, features: Any) -> Tensor:
        """Probabilities (N, C) of a frame or an array with the columns of training."""
        return self.outputs(self.model.row_format.rows(features))[0]

    def predict(self, features: Any) -> Tensor:
        """Which labels are predicted (N, C) for a frame or an array with the columns of training."""
        return self.decide(*self.outputs(self.model.row_format.rows(features)))


def load_predictor(
    path: Path,
    *,
    thresholds: Literal["tuned"] | float | None = None,
    prior_shift: bool = False,
    model: str | None = None,
    device: torch.device | str = "cpu",
) -> Predictor | RowPredictor:
    """The predictor of whatever was trained: a run, a folder of `tailmask fit`, or an exported file."""
    if (path / "fit.json").is_file():  # of `tailmask fit`
        path = path / "best"
    folder = next((each for each in (path, path / "model") if is_model(each)), None)
    if folder is None:
        return Predictor.load(
            path, thresholds=thresholds, prior_shift=prior_shift, model=model, device=device
        )
    if (path / "run.json").is_file() and not Run(path).is_complete:
        raise UserError(f"{path} is not complete: run the same command to finish it")
    if prior_shift:
        raise UserError(
            f"{path} gives probabilities under the data's own prevalence: leave out --prior-shift"
        )
    return RowPredictor.load(folder, thresholds=thresholds)
