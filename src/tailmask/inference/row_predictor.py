"""Predictions for new files and frames by models on raw rows, such as ensembles or trees."""

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
from tailmask.data.readers.table.program_frames import like_features
from tailmask.data.rows import Rows
from tailmask.inference.label_decision import LabelDecision, choose_decision, decision_of_study
from tailmask.inference.predictor import Predictor
from tailmask.inference.study_choice import choose_run
from tailmask.learners.trained_model import TrainedModel, is_model
from tailmask.runs.reader import Run

__all__ = ["FIT_RECORD", "RowPredictor", "load_predictor"]

LARGEST_BATCH = 4096

# The file that `tailmask fit` leaves in its folder.
FIT_RECORD = "fit.json"


@dataclass(frozen=True, eq=False)
class RowPredictor:
    """The model of a cross-fitted run or of `tailmask fit`, which predicts for raw rows."""

    model: TrainedModel
    decision: LabelDecision

    batch_size = LARGEST_BATCH

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        thresholds: Literal["tuned"] | float | None = None,
        decide: DecisionRule | str | None = None,
        study_decision: str | None = None,
        backbone: str | None = None,
    ) -> RowPredictor:
        """Load the model in a folder; `thresholds` and `decide` are as in `Predictor.load`.

        `study_decision` is the decision of a study; it is used if neither of the two is given. A rule needs
        the out-of-fold outputs in the folder of the run, which contains the model's folder. `backbone` is the
        present folder of the pretrained model, `hf:FOLDER`, or the name of the user's own encoder, which is
        then allowed to run.
        """
        folder = Path(folder)
        model = TrainedModel.load(folder)
        if isinstance(model.row_format, BackboneFormat):
            model = replace(model, row_format=model.row_format.allowed(backbone))
        elif backbone is not None:
            raise UserError(
                f"{folder} was not trained on features of a pretrained model: leave out {backbone}"
            )
        places = (folder, folder.parent)
        run = next((each for each in places if (each / "predictions.npz").is_file()), folder)
        if thresholds is None and decide is None:
            thresholds, decide, _ = decision_of_study(study_decision, model.facts)
        facts, dtype = model.facts, torch.float64
        return cls(model, choose_decision(facts, run, thresholds=thresholds, decide=decide, dtype=dtype))

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
        """True if samples are images; then a folder or a list of files can be read."""
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
        return row_format.pieces(Path(path), self.batch_size)

    def outputs(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Probabilities and logits (B, C) of raw rows."""
        return self.model.outputs(rows)

    def predict_proba(self, features: Any) -> Any:
        """Probabilities (N, C) of a frame or an array with the columns of training; a frame for a frame."""
        return like_features(self.outputs(self.model.row_format.rows(features))[0], self.classes, features)

    def predict(self, features: Any) -> Any:
        """The predicted labels (N, C) of a frame or an array, in the form that `predict_proba` gives."""
        labels = self.decision.labels(*self.outputs(self.model.row_format.rows(features)))
        return like_features(labels, self.classes, features)


def load_predictor(
    path: Path | str,
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
    path = Path(path)
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
    if encoder is None and model is not None and is_backbone(model):
        encoder = model
    return RowPredictor.load(
        folder, thresholds=thresholds, decide=decide, study_decision=decision, backbone=encoder
    )


def _rule_of_fit(path: Path) -> str | None:
    """The rule of `tailmask fit --decide`; None for the default thresholds, which are for F1."""
    try:
        rule = json.loads(path.read_bytes())["decide"]
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}; fit again") from error
    return None if rule == "f1" else str(rule)
