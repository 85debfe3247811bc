"""Thresholds for another decision rule, fitted again on what a run put out for its validation rows."""

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
    """Thresholds (C,) for a rule from a run's validation or out-of-fold outputs, and what to know of them."""
    if single_label:
        raise UserError(
            f"{run} predicts one label a sample: --decide takes top=3 or the like here, got {rule}"
        )
    if not run.is_dir():
        raise UserError(
            f"--decide {rule} needs the validation outputs of a run: name the run's folder, got {run}"
        )
    arrays = Run(run).predictions()
    logits, targets = (arrays.get(f"validation_{name}") for name in ("logits", "targets"))
    if logits is None or targets is None:
        raise UserError(
            f"{run} has no validation outputs, which --decide {rule} needs: choose --thresholds 0.5"
        )
    if targets.shape != logits.shape or targets.shape[1:] != (num_classes,):
        raise UserError(f"{run}/predictions.npz does not have {num_classes} classes")
    known = torch.from_numpy(targets)
    thresholds = rule.fit(torch.from_numpy(logits).float().sigmoid(), known)
    assert thresholds is not None
    sentence = few_positives((known == 1).sum(dim=0).tolist())
    return thresholds, () if sentence is None else (sentence,)
