"""The outputs of a run on test and validation data, and the decisions that the run supports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask._util.serialization import from_mapping
from tailmask.calibration import DecisionRule, apply_prior_shift, cross_fitted_labels
from tailmask.learners.trained_model import is_model, read_facts
from tailmask.methods import parse
from tailmask.metrics import Evaluation, confusion
from tailmask.runs.decision_file import read_decisions, validation_folds
from tailmask.runs.model_file import read_description
from tailmask.runs.reader import Run
from tailmask.runs.recipe import EvaluationRecipe

__all__ = ["DECISIONS", "F1_RULE", "Decision", "Outputs", "read_outputs", "rule_decision"]

# The decision of a row in a table: one of DECISIONS, or the text of a decision rule.
Decision = str
# The recipe's single threshold; thresholds fitted on validation; logits shifted back to the data's own prior.
DECISIONS: tuple[Decision, ...] = ("default", "tuned thresholds", "prior shift")
F1_RULE = DecisionRule()


def rule_decision(rule: DecisionRule) -> Decision:
    """The name of the decision by a rule.

    >>> rule_decision(DecisionRule()), rule_decision(DecisionRule("recall", 0.8))
    ('tuned thresholds', 'recall=0.8')
    """
    return "tuned thresholds" if rule == F1_RULE else str(rule)


@dataclass(frozen=True)
class Outputs:
    """Test logits and targets of a run (N, C), with its thresholds and prior shift; None if it has none.

    `members` (N, k) says which test samples belong together, such as images that share a digit. `validation`
    has logits and targets, out-of-fold if the run was cross-fitted. `thresholds` are those of `rule`.
    """

    run: Run
    logits: Tensor
    targets: Tensor
    thresholds: Tensor | None
    prior_shift: Tensor | None
    members: Tensor | None = None
    validation: tuple[Tensor, Tensor] | None = None
    validation_members: NDArray[Any] | None = None
    validation_folds: NDArray[Any] | None = None
    rule: DecisionRule = F1_RULE

    def offers(self, decision: Decision) -> bool:
        """True if the run has everything that the decision needs."""
        if decision == rule_decision(self.rule):
            return self.thresholds is not None or (self.rule.top is not None and not self.single_label)
        return decision == "default" or (decision == "prior shift" and self.prior_shift is not None)

    @property
    def single_label(self) -> bool:
        """True if each sample has exactly one label."""
        return bool(self.run.config["single_label"])

    @property
    def activation(self) -> Literal["sigmoid", "softmax"]:
        """The function that turns logits into probabilities."""
        return parse(self.run.config["method"]).activation

    def probabilities(self, logits: Tensor | None = None) -> Tensor:
        """Probabilities (N, C) of these logits; None: of the test logits."""
        logits = self.logits if logits is None else logits
        return logits.sigmoid() if self.activation == "sigmoid" else logits.softmax(dim=1)

    def evaluation(self, decision: Decision = "default") -> Evaluation:
        """The evaluation of the test outputs with one of the decisions that the run offers."""
        config, recipe = self.run.config, self._recipe
        by_rule = decision == rule_decision(self.rule)
        top = self.rule.labels(self.logits, None) if by_rule and self.rule.top is not None else None
        return Evaluation(
            self._shifted(self.logits, decision),
            self.targets,
            train_positives=torch.tensor(config["train_counts"][1]),
            thresholds=self.thresholds if by_rule and self.thresholds is not None else recipe.threshold,
            predictions=top,
            activation=self.activation,
            single_label=self.single_label,
            rarest=recipe.rarest,
            frequent=recipe.frequent,
        )

    def validation_score(self, decision: Decision) -> float | None:
        """The mean F1 of the classes with validation positives, to choose a method by; None without any.

        Thresholds are cross-fitted: no row is decided by a threshold that it helped to fit. For single-label
        data the score is the error, as a mean over the classes.
        """
        if self.validation is None:
            return None
        logits, targets = self._shifted(self.validation[0], decision), self.validation[1]
        if self.single_label:
            labels = DecisionRule("top", 1).labels(logits, None)
        elif decision == rule_decision(self.rule):
            folds = self.validation_folds
            if folds is None:
                folds = validation_folds(targets, self.validation_members)
            if folds is None:
                return None
            labels = cross_fitted_labels(self.rule, self.probabilities(logits), targets, folds)
        else:
            labels = self.probabilities(logits) >= self._recipe.threshold
        counts = confusion(labels, targets)
        present = counts.positives > 0
        if not bool(present.any()):
            return None
        return float((1.0 - counts.recall if self.single_label else counts.f1)[present].mean())

    def _shifted(self, logits: Tensor, decision: Decision) -> Tensor:
        if decision == "prior shift" and self.prior_shift is not None:
            return apply_prior_shift(logits, self.prior_shift)
        return logits

    @property
    def _recipe(self) -> EvaluationRecipe:
        return from_mapping(EvaluationRecipe, self.run.config["recipe"]["evaluation"], path="evaluation.")


def read_outputs(run: Run, rule: DecisionRule = F1_RULE) -> Outputs:
    """The outputs in a run folder, checked for their shape, with thresholds for the rule."""
    path = run.folder / "predictions.npz"
    arrays = run.predictions()
    num_classes = len(run.config["classes"])
    splits = ["test"] + ["validation"] * ("validation_logits" in arrays)
    for split in splits:
        shape = (max(1, len(arrays.get(f"{split}_targets", ()))), num_classes)
        for name, kind in ((f"{split}_logits", "float32"), (f"{split}_targets", "int8")):
            if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != kind:
                raise UserError(
                    f"{path} must have {name} for {num_classes} classes: was it written by tailmask?"
                )
        members = arrays.get(f"{split}_members")
        if members is not None and (
            members.shape not in ((shape[0], 1), (shape[0], 2)) or members.dtype != "int64"
        ):
            raise UserError(
                f"{path} must have {split}_members with one or two numbers per sample: was it written by "
                "tailmask?"
            )
    validation = None
    if "validation" in splits:
        validation = (
            torch.from_numpy(arrays["validation_logits"]),
            torch.from_numpy(arrays["validation_targets"]),
        )
    thresholds, shift = _fitted(run)
    if rule != F1_RULE:
        usable = validation is not None and not run.config["single_label"]
        thresholds = rule.fit(validation[0].sigmoid(), validation[1]) if usable and validation else None
    members = arrays.get("test_members")
    return Outputs(
        run,
        torch.from_numpy(arrays["test_logits"]),
        torch.from_numpy(arrays["test_targets"]),
        thresholds,
        shift,
        None if members is None else torch.from_numpy(members),
        validation,
        arrays.get("validation_members"),
        _folds(arrays, path),
        rule,
    )


def _folds(arrays: dict[str, NDArray[Any]], path: Path) -> NDArray[Any] | None:
    """The folds (N,) for the validation scores of a cross-fitted run."""
    folds = arrays.get("validation_folds") if "validation_targets" in arrays else None
    if folds is not None and (
        folds.shape != arrays["validation_targets"].shape[:1] or folds.dtype != "int64"
    ):
        raise UserError(
            f"{path} must have validation_folds with one number per validation sample: was it written by "
            "tailmask?"
        )
    return folds


def _fitted(run: Run) -> tuple[Tensor | None, Tensor | None]:
    """Thresholds for F1 and prior shift (C,); a folder without a model has no prior shift."""
    decisions = read_decisions(run.folder)
    thresholds, shift = None, None
    if is_model(run.folder / "model"):  # its logits already have the data's own prevalence
        fitted = read_facts(run.folder / "model").thresholds
        thresholds = None if fitted is None else torch.tensor(fitted, dtype=torch.float64)
    path = run.folder / "model.safetensors"
    if path.is_file():
        description = read_description(path)
        values = (description.thresholds, description.prior_shift)
        thresholds, shift = (None if value is None else torch.tensor(value) for value in values)
    if decisions is not None:
        thresholds = decisions.thresholds
        if len(thresholds) != len(run.config["classes"]):
            raise UserError(
                f"{run.folder}/decisions.json must have one threshold per class: was it written by tailmask?"
            )
    return thresholds, shift
