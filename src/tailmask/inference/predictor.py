"""The model of a finished run, for predictions on new inputs."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from tailmask._util.messages import UserError, require
from tailmask.backbones.backbone import is_backbone
from tailmask.calibration import DecisionRule
from tailmask.data.encoders.backbone_encoder import BackboneEncoder
from tailmask.data.encoders.encoder import Encoder
from tailmask.data.encoders.image import ImageEncoder
from tailmask.data.encoders.table import TableEncoder
from tailmask.data.encoders.token_encoder import TokenEncoder
from tailmask.data.readers.image_list import is_list
from tailmask.data.readers.table.program_frames import as_polars, frame_library, like_features
from tailmask.data.row_formats import typed_columns
from tailmask.inference.classifier import Classifier
from tailmask.inference.label_decision import LabelDecision, choose_decision, decision_of_study
from tailmask.inference.study_choice import choose_run
from tailmask.runs.reader import Run, no_run

if TYPE_CHECKING:
    from tailmask.runs.model_file import ModelDescription

__all__ = ["Predictor"]

# Size of a batch in numbers: it is fast, and the activations of large images still fit into memory.
BATCH_NUMBERS = 2**22
LARGEST_BATCH = 1024
# A transformer needs memory for each pair of tokens.
TEXT_BATCH = 32


@dataclass(frozen=True, eq=False)
class Predictor:
    """The model of a finished run: from inputs to probabilities, and from those to labels.

    >>> Predictor.load("no-such-run")
    Traceback (most recent call last):
    tailmask._util.messages.UserError: no-such-run is not a run: there is no such folder
    """

    classifier: Classifier
    description: ModelDescription
    decision: LabelDecision
    device: torch.device
    backbone: str | None = None  # the user's choice: the folder of the backbone, or the code that may run

    @classmethod
    def load(
        cls,
        run: Path | str,
        *,
        thresholds: Literal["tuned"] | float | None = None,
        decide: DecisionRule | str | None = None,
        prior_shift: bool = False,
        study_run: str | None = None,
        model: str | None = None,
        encoder: str | None = None,
        device: torch.device | str = "cpu",
    ) -> Predictor:
        """Load the model of a run folder, of a study, or of an exported safetensors file.

        Nothing is unpickled. A network of your own is built by importing its code, so `model` must name it
        again: a file never decides which code runs.

        Args:
            run: The run's folder, the folder of a study, or the file. In a study, the model and the decision
                are those that `compare` chose by validation scores.
            thresholds: Lowest probability at which a label is predicted: one number for all classes, or
                "tuned" for the thresholds fitted on validation data. None: the tuned ones if the run has
                them, else the threshold of its recipe (0.5).
            decide: Another goal to fit thresholds for, on the run's validation outputs: "precision=0.9",
                "recall=0.8", "cost=5", "top=3" or "f1"; see `DecisionRule`.
            prior_shift: True to shift probabilities back to the data's own prior. Tuned thresholds are
                shifted too, so the labels do not change.
            study_run: The run of a study to use instead of the chosen one.
            model: The import path `package.module:factory` of a network of your own; or `hf:FOLDER`, where
                the run's backbone is now.
            encoder: The import path `module:function` of an encoder of your own.
            device: The device to compute on.
        """
        require("safetensors", extra="cli")
        from tailmask.runs.model_file import read_model

        chosen = choose_run(Path(run), study_run)
        run = chosen.path
        backbone = encoder
        if model is not None and is_backbone(model):
            model, backbone = None, model
        network, description = read_model(_model_file(run), model=model)
        if thresholds is None and decide is None and not prior_shift:
            thresholds, decide, prior_shift = decision_of_study(chosen.decision, description)
        shift = _prior_shift(description, run) if prior_shift else None
        decision = choose_decision(description, run, thresholds=thresholds, decide=decide, prior_shift=shift)
        classifier = _classifier(network, description, shift, device)
        return cls(classifier, description, decision, torch.device(device), backbone)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self.description.classes

    @functools.cached_property
    def encoder(self) -> Encoder:
        """The encoder from raw files to inputs, fitted on the training data."""
        encoder = Encoder.from_json(self.description.encoder)
        if isinstance(encoder, BackboneEncoder):
            encoder = encoder.allowed(self.backbone)
        elif self.backbone is not None:
            raise UserError(
                f"this model was not trained on features of a pretrained model: leave out {self.backbone}"
            )
        if encoder.shape != self.description.shape:  # the weights were checked against the model's shape
            raise UserError(
                f"the encoder must give inputs of shape {self.description.shape}, got {encoder.shape}"
            )
        return encoder

    @torch.inference_mode()
    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits (B, C) of encoded inputs (B, …), on the CPU."""
        expected = self.description.shape
        if tuple(inputs.shape[1:]) != expected:
            raise ValueError(
                f"inputs must have shape (B, {', '.join(map(str, expected))}), got {tuple(inputs.shape)}"
            )
        probabilities, logits = self.classifier(inputs.to(self.device))
        return probabilities.cpu(), logits.cpu()

    def predict_proba(self, inputs: Any) -> Any:
        """Probabilities (B, C) of encoded inputs (B, …), on the CPU; or a frame of them for a frame.

        A frame has the columns of the table that the model was trained on.
        """
        return like_features(self.outputs(self._encoded(inputs))[0], self.classes, inputs)

    def predict(self, inputs: Any) -> Any:
        """The predicted labels (B, C) of encoded inputs (B, …), or a frame of them for a frame."""
        labels = self.decision.labels(*self.outputs(self._encoded(inputs)))
        return like_features(labels, self.classes, inputs)

    def _encoded(self, inputs: Any) -> Tensor:
        if frame_library(inputs) is None:
            encoded: Tensor = inputs
            return encoded
        if not isinstance(self.encoder, TableEncoder):
            raise UserError("the model was not trained on a table: pass encoded inputs, not a frame")
        rows = self.encoder.encode(typed_columns(as_polars(inputs), self.encoder.types))
        return torch.from_numpy(rows if isinstance(rows, np.ndarray) else rows.toarray())

    def batches(
        self, path: Path | str, batch_size: int | None = None, *, images: Path | str | None = None
    ) -> Iterator[Tensor]:
        """Encoded inputs (B, …) of the samples in a file, read piece by piece.

        Paths in a list of images are relative to the folder `images`; None: the list's folder.
        """
        path, encoder = Path(path), self.encoder
        if not path.exists():
            raise UserError(f"there is no file {path} to predict for")
        if images is None:
            return encoder.batches(path, batch_size or self.batch_size)
        if (
            not isinstance(encoder, ImageEncoder | BackboneEncoder)
            or not encoder.reads_images
            or not is_list(path)
        ):
            raise UserError(f"--images is for lists of images, got {path}: leave it out")
        return encoder.batches(path, batch_size or self.batch_size, images=Path(images))

    @property
    def batch_size(self) -> int:
        """The number of samples to read and predict at once; larger samples have smaller batches."""
        if isinstance(self.encoder, TokenEncoder):
            return TEXT_BATCH
        return max(1, min(LARGEST_BATCH, BATCH_NUMBERS // max(1, torch.Size(self.description.shape).numel())))


def _model_file(path: Path) -> Path:
    if path.is_file():
        return path
    run = Run(path)
    if not run.exists:
        raise UserError(no_run(path))
    if not run.is_complete:
        raise UserError(f"{path} is not complete: run the same `tailmask train` command to finish it")
    if (path / "model").is_dir():
        raise UserError(f"{path} has no single network: load it with tailmask.inference.load_predictor")
    file = path / "model.safetensors"
    if not file.is_file():
        raise UserError(f"{path} has no model.safetensors with the weights: train the run again")
    return file


def _prior_shift(description: ModelDescription, run: Path) -> Tensor:
    if description.prior_shift is None:
        raise UserError(
            f"{run} has no prior shift, because it was trained with {description.method!r}: only masking "
            "(plm) with a loss such as bce and without a sampler has one; leave out --prior-shift"
        )
    return torch.tensor(description.prior_shift)


def _classifier(
    network: nn.Module, description: ModelDescription, shift: Tensor | None, device: torch.device | str
) -> Classifier:
    classifier = Classifier(
        network, activation=description.activation, logit_scale=description.logit_scale, prior_shift=shift
    ).eval()
    if len(description.shape) == 3:  # images: this makes convolutions on the CPU faster
        classifier = classifier.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack memory_format alone
    try:
        return classifier.to(device)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA fails an assertion
        raise UserError(f"the device {str(device)!r} cannot be used: {error}") from error
