"""What a run's network put out for the test set, and the ways of deciding that the run offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask._util.serialization import from_mapping
from tailmask.calibration import apply_prior_shift
from tailmask.learners.trained_model import is_model, read_facts
from tailmask.methods import parse
from tailmask.metrics import Evaluation
from tailmask.runs.model_file import read_description
from tailmask.runs.reader import Run
from tailmask.runs.recipe import EvaluationRecipe

__all__ = ["DECISIONS", "Decision", "Outputs", "read_outputs"]

# The recipe's one threshold; thresholds fitted on validation; logits shifted back to the data's own prior.
Decision = Literal["default", "tuned thresholds", "prior shift"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)


@dataclass(frozen=True)
class Outputs:
    """Test logits and targets of a run (N, C), and what it decides by; None where the run has no such.

    `members` (N, k) says which test samples belong together, as digits that images share.
    """

    run: Run
    logits: Tensor
    targets: Tensor
    thresholds: Tensor | None
    prior_shift: Tensor | None
    members: Tensor | None = None

    def offers(self, decision: Decision) -> bool:
        """Whether the run has what the decision needs."""
        if decision == "tuned thresholds":
            return self.thresholds is not None
        return decision == "default" or self.prior_shift is not None

    @property
    def activation(self) -> Literal["sigmoid", "softmax"]:
        """What turns the logits into probabilities."""
        return "softmax" if parse(self.run.config["method"]).loss.word.single_label else "sigmoid"

    def probabilities(self) -> Tensor:
        """Probabilities (N, C)."""
        return self.logits.sigmoid() if self.activation == "sigmoid" else self.logits.softmax(dim=1)

    def evaluation(self, decision: Decision = "default") -> Evaluation:
        """The outputs ready to be measured, decided in one of the ways that are offered."""
        config = self.run.config
        recipe = from_mapping(EvaluationRecipe, config["recipe"]["evaluation"], path="evaluation.")
        logits = self.logits
        thresholds: float | Tensor = recipe.threshold
        if decision == "tuned thresholds" and self.thresholds is not None:
            thresholds = self.thresholds
        elif decision == "prior shift" and self.prior_shift is not None:
            logits = apply_prior_shift(logits, self.prior_shift)
        return Evaluation(
            logits,
            self.targets,
            train_positives=torch.tensor(config["train_counts"][1]),
            thresholds=thresholds,
            activation=self.activation,
            single_label=config["single_label"],
            rarest=recipe.rarest,
            frequent=recipe.frequent,
        )


def read_outputs(run: Run) -> Outputs:
    """The test outputs in a run folder, checked for their shape."""
    path = run.folder / "predictions.npz"
    arrays = run.predictions()
    num_classes = len(run.config["classes"])
    shape = (max(1, len(arrays.get("test_targets", ()))), num_classes)
    for name, kind in (("test_logits", "float32"), ("test_targets", "int8")):
        if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != kind:
            raise UserError(f"{path} must hold {name} for {num_classes} classes: was it written by tailmask?")
    members = arrays.get("test_members")
    if members is not None and (
        members.shape not in ((shape[0], 1), (shape[0], 2)) or members.dtype != "int64"
    ):
        raise UserError(f"{path} must hold test_members with one or two numbers for each test sample")
    thresholds, shift = _fitted(run)
    return Outputs(
        run,
        torch.from_numpy(arrays["test_logits"]),
        torch.from_numpy(arrays["test_targets"]),
        thresholds,
        shift,
        None if members is None else torch.from_numpy(members),
    )


def _fitted(run: Run) -> tuple[Tensor | None, Tensor | None]:
    """Thresholds and prior shift (C,); a folder whose weights were removed to save space has neither."""
    if is_model(run.folder / "model"):  # its logits are under the data's own prevalence already
        fitted = read_facts(run.folder / "model").thresholds
        return (None if fitted is None else torch.tensor(fitted, dtype=torch.float64)), None
    path = run.folder / "model.safetensors"
    if not path.is_file():
        return None, None
    description = read_description(path)
    values = (description.thresholds, description.prior_shift)
    thresholds, shift = (None if value is None else torch.tensor(value) for value in values)
    return thresholds, shift
