"""Predictions of models on raw rows, such as ensembles or trees, for new files and frames."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.backbones.backbone import is_backbone
from tailmask.calibration import DecisionRule
from tailmask.data.pretrained.backbone_format import BackboneFormat
from tailmask.data.rows import Rows
from tailmask.inference.predictor import Predictor
from tailmask.inference.refitted_thresholds import refit
from tailmask.inference.study_choice import choose_run
from tailmask.learners.trained_model import TrainedModel, is_model
from tailmask.runs.reader import Run

__all__ = ["FIT_RECORD", "RowPredictor", "load_predictor"]

LARGEST_BATCH = 4096

# What `tailmask fit` leaves in its folder.
FIT_RECORD = "fit.json"


@dataclass(frozen=True, eq=False)
class RowPredictor:
    """The model of a cross-fitted run or of `tailmask fit`: from raw rows to probabilities and labels."""

    model: TrainedModel
    thresholds: Tensor | None  # (C,), on the probabilities; None if each row gets a fixed number of labels
    decided_by: str = "default"  # "default" (one threshold), "tuned", or the text of a decision rule
    top: int = 1  # labels per row if there are no thresholds
    notes: tuple[str, ...] = ()  # notes on the decisions

    batch_size = LARGEST_BATCH

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        thresholds: Literal["tuned"] | float | None = None,
        decide: DecisionRule | str | None = None,
        backbone: str | None = None,
    ) -> RowPredictor:
        """Load the model in a folder; `thresholds` and `decide` are as in `Predictor.load`.

        A rule needs the out-of-fold outputs in the folder of the run, which contains the model's folder.
        `backbone` is where the pretrained model is now, `hf:FOLDER`, or the encoder of the user's own that
        may be run.
        """
        model = TrainedModel.load(Path(folder))
        if isinstance(model.row_format, BackboneFormat):
            model = replace(model, row_format=model.row_format.allowed(backbone))
        elif backbone is not None:
            raise UserError(
                f"{folder} was not trained on features of a pretrained model: leave out {backbone}"
            )
        if thresholds is not None and decide is not None:
            raise UserError("--thresholds and --decide exclude each other: leave one of them out")
        if decide is not None:
            rule = DecisionRule.parse(decide)
            if rule.top is not None:
                return cls(model, None, str(rule), rule.top)
            run = Path(folder) if (Path(folder) / "predictions.npz").is_file() else Path(folder).parent
            fitted, notes = refit(
                rule, run, num_classes=len(model.classes), single_label=model.thresholds is None
            )
            return cls(model, fitted.double(), str(rule), notes=notes)
        tuned = model.facts.thresholds is not None
        if thresholds is None or thresholds == "tuned":
            if thresholds == "tuned" and not tuned:
                raise UserError(f"{folder} has no tuned thresholds: choose a number")
            return cls(model, model.thresholds, "tuned" if tuned else "default")
        if not isinstance(thresholds, float | int) or not 0 < thresholds < 1:
            raise UserError(f"thresholds must be a number between 0 and 1 or 'tuned', got {thresholds!r}")
        if model.thresholds is None:
            raise UserError(
                f"{folder} predicts one label per row, the most probable one: leave out --thresholds"
            )
        return cls(model, torch.full_like(model.thresholds, float(thresholds)))

    @property
    def is_tuned(self) -> bool:
        """True if the thresholds were fitted on out-of-fold outputs."""
        return self.decided_by != "default" and self.thresholds is not None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self.model.classes

    @property
    def header(self) -> bool:
        """True if its tables have a header line."""
        return bool(getattr(self.model.row_format, "header", True))

    @property
    def reads_images(self) -> bool:
        """Whether samples are images, so that a folder or a list of files can be read."""
        return isinstance(self.model.row_format, BackboneFormat) and self.model.row_format.reads_images

    def batches(self, path: Path | str, *, images: Path | str | None = None) -> Iterator[Rows]:
        """The rows of a file, read piece by piece."""
        row_format = self.model.row_format
        if images is not None and not self.reads_images:
            raise UserError("the model was trained on a table, so there are no images: leave out --images")
        if not Path(path).exists():
            raise UserError(f"there is no file {path} to predict for")
        if isinstance(row_format, BackboneFormat):
            folder = None if images is None else Path(images)
            return row_format.pieces(Path(path), self.batch_size, images=folder)
        return self.model.row_format.pieces(Path(path), self.batch_size)

    def outputs(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Probabilities and logits (B, C) of raw rows."""
        return self.model.outputs(rows)

    def decide(self, probabilities: Tensor, logits: Tensor) -> Tensor:
        """The predicted labels (B, C): the most probable ones, or those that reach their threshold."""
        if self.thresholds is None:
            return DecisionRule("top", self.top).labels(logits, None)
        return probabilities >= self.thresholds

    def predict_proba(self, features: Any) -> Tensor:
        """Probabilities (N, C) of a frame or an array with the columns of training."""
        return self.outputs(self.model.row_format.rows(features))[0]

    def predict(self, features: Any) -> Tensor:
        """The predicted labels (N, C) of a frame or an array with the columns of training."""
        return self.decide(*self.outputs(self.model.row_format.rows(features)))


def load_predictor(
    path: Path,
    *,
    thresholds: Literal["tuned"] | float | None = None,
    decide: DecisionRule | str | None = None,
    prior_shift: bool = False,
    study_run: str | None = None,
    model: str | None = None,
    encoder: str | None = None,
    device: torch.device | str = "cpu",
) -> Predictor | RowPredictor:
    """The predictor of a run, a study, a folder of `tailmask fit`, or an exported file.

    For a study it is the model that `compare` chose, or the run that `study_run` names.
    """
    if (path / FIT_RECORD).is_file():
        if thresholds is None and decide is None:
            decide = _rule_of_fit(path / FIT_RECORD)
        path = path / "best"
    study, (path, decision) = path, choose_run(path, study_run)
    folder = next((each for each in (path, path / "model") if is_model(each)), None)
    if folder is None:
        return Predictor.load(
            study,
            thresholds=thresholds,
            decide=decide,
            prior_shift=prior_shift,
            study_run=study_run,
            model=model,
            encoder=encoder,
            device=device,
        )
    if (path / "run.json").is_file() and not Run(path).is_complete:
        raise UserError(f"{path} is not complete: run the same command to finish it")
    if prior_shift:
        raise UserError(
            f"the probabilities of {path} already have the data's own prevalence: leave out --prior-shift"
        )
    if thresholds is None and decide is None:
        thresholds, decide = _of_study(decision, Run(path))
    if encoder is None and model is not None and is_backbone(model):
        encoder = model
    return RowPredictor.load(folder, thresholds=thresholds, decide=decide, backbone=encoder)


def _rule_of_fit(path: Path) -> str | None:
    """The rule that `tailmask fit` was asked to decide by; None for its own thresholds, which are for F1."""
    try:
        rule = json.loads(path.read_bytes())["decide"]
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}; fit again") from error
    return None if rule == "f1" else str(rule)


def _of_study(decision: str | None, run: Run) -> tuple[Literal["tuned"] | float | None, str | None]:
    """Thresholds or a rule from a study's decision; both None without a study or for single-label data."""
    if decision is None or run.config.get("single_label"):
        return None, None
    if decision == "default":
        return float(run.config["recipe"]["evaluation"]["threshold"]), None
    return ("tuned", None) if decision == "tuned thresholds" else (None, decision)
