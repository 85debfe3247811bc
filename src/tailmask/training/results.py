"""What a finished run leaves: predictions, metrics, and the model with all that prediction needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from tailmask.calibration import fit_thresholds
from tailmask.files import write_json
from tailmask.metrics import evaluate
from tailmask.training.arrays import write_arrays
from tailmask.training.config import RunConfig
from tailmask.training.evaluation import all_targets, predict
from tailmask.training.module import TrainingModule
from tailmask.training.weights import ModelDescription, save_model

__all__ = ["write_results"]


def write_results(folder: Path, module: TrainingModule, config: RunConfig, *, is_first: bool) -> None:
    """Evaluate the trained network once, at the recipe's threshold, and write what the run leaves.

    All ranks must call it, and the first writes; metrics.json comes last, since it says that all is there.
    """
    dataset = module.dataset
    scale = module.objective.logit_scale
    splits = {name: split for name, split in dataset.splits.items() if name != "train"}
    logits = {
        name: predict(module.network, split, shard=module.shard, device=module.device) * scale
        for name, split in splits.items()
    }
    if not is_first:
        return
    targets = {name: all_targets(split) for name, split in splits.items()}
    arrays = {f"{name}_logits": values.numpy() for name, values in logits.items()}
    arrays |= {f"{name}_targets": values.numpy() for name, values in targets.items()}
    write_arrays(folder / "predictions.npz", arrays)
    thresholds: Tensor | None = None
    if "validation" in logits and not dataset.single_label:
        thresholds = fit_thresholds(logits["validation"].sigmoid(), targets["validation"])
    shift = module.objective.prior_shift
    save_model(
        folder / "model.safetensors",
        module.network,
        ModelDescription(
            method=config.name,
            classes=dataset.classes,
            shape=dataset.shape,
            model=module.model_arguments,
            encoder=dataset.encoder.to_json(),
            single_label=dataset.single_label,
            activation=module.objective.activation,
            logit_scale=scale,
            threshold=config.recipe.evaluation.threshold,
            thresholds=None if thresholds is None else tuple(thresholds.tolist()),
            prior_shift=None if shift is None else tuple(shift.tolist()),
        ),
    )
    reports = {name: _report(module, logits[name], targets[name]) for name in logits}
    if thresholds is not None:
        reports["test_tuned"] = _report(module, logits["test"], targets["test"], thresholds)
    write_json(folder / "metrics.json", reports)


def _report(
    module: TrainingModule, logits: Tensor, targets: Tensor, thresholds: Tensor | None = None
) -> dict[str, Any]:
    recipe, dataset = module.recipe.evaluation, module.dataset
    report = evaluate(
        logits,
        targets,
        train_positives=dataset.train.counts()[1],
        thresholds=recipe.threshold if thresholds is None else thresholds,
        activation=module.objective.activation,
        single_label=dataset.single_label,
        rarest=recipe.rarest,
        frequent=recipe.frequent,
    )
    return report.to_json()
