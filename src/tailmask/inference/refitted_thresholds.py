"""Thresholds for another decision rule, fitted on a run's validation outputs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.calibration import DecisionRule
from tailmask.runs.decision_file import few_positives
from tailmask.runs.reader import Run

__all__ = ["refit"]


def refit(
    rule: DecisionRule, run: Path, *, num_classes: int, single_label: bool
) -> tuple[Tensor, tuple[str, ...]]:
    """Thresholds (C,) for a rule, fitted on a run's validation or out-of-fold outputs, and notes on them."""
    if single_label:
        raise UserError(
            f"{run} predicts one label per sample: --decide must be such as top=3 here, got {rule}"
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
    if targets.shape != logits.shape or targets.shape[1:] != (num_classes,):
        raise UserError(f"{run}/predictions.npz must have {num_classes} classes: was it changed?")
    known = torch.from_numpy(targets)
    thresholds = rule.fit(torch.from_numpy(logits).float().sigmoid(), known)
    assert thresholds is not None
    sentence = few_positives((known == 1).sum(dim=0).tolist())
    return thresholds, () if sentence is None else (sentence,)
