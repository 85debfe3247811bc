"""How a model's probabilities become labels: by thresholds, or as the most probable ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.calibration import DecisionRule
from tailmask.learners.trained_model import ModelFacts
from tailmask.runs.decision_file import few_positives
from tailmask.runs.reader import Run

if TYPE_CHECKING:
    from tailmask.runs.model_file import ModelDescription

__all__ = ["LabelDecision", "choose_decision", "decision_of_study"]


@dataclass(frozen=True, eq=False)
class LabelDecision:
    """The decision of a predictor.

    >>> decision = LabelDecision(torch.tensor([0.5, 0.2]))
    >>> probabilities = torch.tensor([[0.3, 0.3]])
    >>> decision.labels(probabilities, probabilities.logit())
    tensor([[False,  True]])
    """

    thresholds: Tensor | None  # (C,), on the probabilities; None if each sample gets a fixed number of labels
    decided_by: str = "default"  # "default" (one threshold), "tuned", or the text of a decision rule
    top: int = 1  # labels per sample if there are no thresholds
    notes: tuple[str, ...] = ()

    def labels(self, probabilities: Tensor, logits: Tensor) -> Tensor:
        """The predicted labels (B, C): the most probable ones, or those that reach their threshold.

        The most probable ones have the highest logits: several probabilities may be rounded to 1.
        """
        if self.thresholds is None:
            return DecisionRule("top", self.top).labels(logits, None)
        return probabilities >= self.thresholds


def choose_decision(
    model: ModelDescription | ModelFacts,
    run: Path,
    *,
    thresholds: Literal["tuned"] | float | None = None,
    decide: DecisionRule | str | None = None,
    prior_shift: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> LabelDecision:
    """The requested decision; by default the model's tuned thresholds, else the threshold of its recipe.

    `decide` fits thresholds on the validation outputs of `run`. Fitted thresholds move with the logits by
    `prior_shift` (C,), so they give the same labels.
    """
    if thresholds is not None and decide is not None:
        raise UserError("--thresholds and --decide exclude each other: leave one of them out")
    if decide is not None:
        rule = DecisionRule.parse(decide)
        if rule.top is not None:
            return LabelDecision(None, str(rule), rule.top)
        fitted, notes = _refit(rule, run, model)
        return LabelDecision(_moved(fitted.to(dtype), prior_shift), str(rule), notes=notes)
    number = thresholds if isinstance(thresholds, float | int) else None
    if not (thresholds in (None, "tuned") if number is None else 0 < number < 1):
        raise UserError(f"thresholds must be a number between 0 and 1 or 'tuned', got {thresholds!r}")
    if model.single_label:
        if thresholds is not None:
            raise UserError(
                f"{run} predicts one label per sample, the most probable one: leave out --thresholds"
            )
        return LabelDecision(None)
    if thresholds == "tuned" and model.thresholds is None:
        raise UserError(f"{run} has no tuned thresholds, because it had no validation data: choose a number")
    if model.thresholds is None or number is not None:
        same = model.threshold if number is None else float(number)
        return LabelDecision(torch.full((len(model.classes),), same, dtype=dtype))
    return LabelDecision(_moved(torch.tensor(model.thresholds, dtype=dtype), prior_shift), "tuned")


def decision_of_study(
    decision: str | None, model: ModelDescription | ModelFacts
) -> tuple[Literal["tuned"] | float | None, str | None, bool]:
    """The thresholds, the rule, and True for a prior shift, from a study's decision (None: no study)."""
    if decision is None or (decision == "default" and model.single_label):
        return None, None, False
    if decision == "tuned thresholds":
        return "tuned", None, False
    if decision in ("default", "prior shift"):
        number = None if model.single_label else model.threshold
        return number, None, decision == "prior shift"
    return None, decision, False


def _refit(
    rule: DecisionRule, run: Path, model: ModelDescription | ModelFacts
) -> tuple[Tensor, tuple[str, ...]]:
    """Thresholds (C,) for a rule, fitted on a run's validation or out-of-fold outputs, and notes on them."""
    if model.single_label:
        raise UserError(
            f"{run} predicts one label per sample: --decide must be top=K, such as top=3, got {rule}"
        )
    if not run.is_dir():
        raise UserError(
            f"--decide {rule} needs the validation outputs of a run: name the run's folder, got {run}"
        )
    arrays = Run(run).predictions()
    logits, targets = (arrays.get(f"validation_{name}") for name in ("logits", "targets"))
    if logits is None or targets is None:
        raise UserError(
            f"--decide {rule} needs validation outputs, and {run} has none: choose --thresholds 0.5"
        )
    if targets.shape != logits.shape or targets.shape[1:] != (len(model.classes),):
        raise UserError(f"{run}/predictions.npz must have {len(model.classes)} classes: train the run again")
    known = torch.from_numpy(targets)
    thresholds = rule.fit(torch.from_numpy(logits).float().sigmoid(), known)
    assert thresholds is not None
    sentence = few_positives((known == 1).sum(dim=0).tolist())
    return thresholds, () if sentence is None else (sentence,)


def _moved(thresholds: Tensor, shift: Tensor | None) -> Tensor:
    """Thresholds that give the same labels with shifted logits."""
    return thresholds if shift is None else (thresholds.double().logit() + shift).sigmoid().float()
