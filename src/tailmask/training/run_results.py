"""The results of a finished run: predictions, metrics, and the model with everything for prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tailmask._util.files import write_json
from tailmask.calibration import DecisionRule, fit_thresholds
from tailmask.data.dataset import Dataset
from tailmask.metrics import class_confusion, evaluate
from tailmask.runs.array_file import write_arrays
from tailmask.runs.config import RunConfig
from tailmask.runs.decision_file import fit_decisions, write_decisions
from tailmask.runs.model_file import ModelDescription, save_model
from tailmask.training.batches import Shard
from tailmask.training.run_parts import Parts
from tailmask.training.split_outputs import all_targets, predict

__all__ = ["MOST_CONFUSED_CLASSES", "split_report", "write_results"]

# With more classes, no confusion matrix is written: its size is the square of their number.
MOST_CONFUSED_CLASSES = 200


def write_results(
    folder: Path,
    parts: Parts,
    config: RunConfig,
    *,
    device: torch.device | str,
    shard: Shard | None = None,
) -> None:
    """Evaluate the trained network at the recipe's threshold, and write the results.

    All ranks must call it; the first one writes. metrics.json is written last: it marks the run as complete.
    """
    dataset = parts.dataset
    scale = parts.objective.logit_scale
    splits = {name: split for name, split in dataset.splits.items() if name != "train"}
    logits = {
        name: predict(parts.network, split, shard=shard, device=device) * scale
        for name, split in splits.items()
    }
    if shard is not None and shard.rank > 0:
        return
    targets = {name: all_targets(split) for name, split in splits.items()}
    arrays = {f"{name}_logits": values.numpy() for name, values in logits.items()}
    arrays |= {f"{name}_targets": values.numpy() for name, values in targets.items()}
    arrays |= {f"{name}_members": s.members for name, s in splits.items() if s.members is not None}
    arrays |= {f"{name}_rows": numbers for name, numbers in dataset.row_numbers.items()}
    write_arrays(folder / "predictions.npz", arrays)
    thresholds: Tensor | None = None
    if "validation" in logits and not dataset.single_label:
        thresholds = _write_decisions(folder, dataset, logits["validation"], targets["validation"])
    shift = parts.objective.prior_shift
    save_model(
        folder / "model.safetensors",
        parts.network,
        ModelDescription(
            method=config.name,
            classes=dataset.classes,
            shape=dataset.shape,
            model=parts.model_arguments,
            encoder=dataset.encoder.to_json(),
            single_label=dataset.single_label,
            activation=config.method.activation,
            logit_scale=scale,
            threshold=config.recipe.evaluation.threshold,
            thresholds=None if thresholds is None else tuple(thresholds.tolist()),
            prior_shift=None if shift is None else tuple(shift.tolist()),
        ),
    )
    reports = {name: split_report(dataset, config, logits[name], targets[name]) for name in logits}
    if thresholds is not None:
        reports["test_tuned"] = split_report(dataset, config, logits["test"], targets["test"], thresholds)
    if dataset.single_label and len(dataset.classes) <= MOST_CONFUSED_CLASSES:
        for name, report in reports.items():
            report["confusion"] = class_confusion(logits[name], targets[name]).tolist()
    write_json(folder / "metrics.json", reports)


def _write_decisions(folder: Path, dataset: Dataset, logits: Tensor, targets: Tensor) -> Tensor:
    """Write decisions.json, and return the thresholds for F1 (C,)."""
    probabilities = logits.sigmoid()
    members = None if dataset.validation is None else dataset.validation.members
    decisions = fit_decisions(
        DecisionRule(), probabilities, targets, classes=dataset.classes, members=members
    )
    if decisions is None:  # a single validation sample
        return fit_thresholds(probabilities, targets)
    write_decisions(folder, decisions)
    return decisions.thresholds


def split_report(
    dataset: Dataset,
    config: RunConfig,
    logits: Tensor,
    targets: Tensor,
    thresholds: Tensor | None = None,
) -> dict[str, Any]:
    """The measures of a split for metrics.json; None decides by the recipe's threshold."""
    recipe = config.recipe.evaluation
    return evaluate(
        logits,
        targets,
        train_positives=dataset.train.counts()[1],
        thresholds=recipe.threshold if thresholds is None else thresholds,
        activation=config.method.activation,
        single_label=dataset.single_label,
        rarest=recipe.rarest,
        frequent=recipe.frequent,
    ).to_json()
