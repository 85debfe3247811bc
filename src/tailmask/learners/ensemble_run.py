"""The ensemble of a study's runs: its own run folder, made from the outputs of the other runs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask._util.registry import word
from tailmask.calibration import apply_prior_shift
from tailmask.data.dataset import Dataset
from tailmask.learners.cross_fitted_run import (
    raw_data_of,
    run_folds,
    scoring_folds,
    write_cross_fitted,
)
from tailmask.learners.cross_fitting import CrossFitted
from tailmask.learners.ensemble import fit_ensemble
from tailmask.learners.network_learner import FittedNetwork
from tailmask.learners.protocol import Fitted, Learner
from tailmask.learners.trained_model import TrainedModel, is_model
from tailmask.runs.config import RunConfig
from tailmask.runs.folder import begin_session
from tailmask.runs.model_file import read_description
from tailmask.runs.reader import Run
from tailmask.training.engine import run_description

__all__ = ["ENSEMBLE", "ensemble_of_methods", "fitted_of", "make_ensemble", "other_methods"]

ENSEMBLE = "ensemble"


@word(
    "ensemble",
    kind="learner",
    implies="bce",
    summary="the other methods together, weighted by their out-of-fold outputs",
    not_with={"plm": "each method in it masks or does not"},
)
def ensemble_of_methods() -> Learner:
    """The other methods of a study or a fit together: their logits on one scale, then averaged with weights.

    Each method's logits are calibrated by Platt scaling. Greedy selection with replacement (Caruana et al.
    2004) chooses the weights on out-of-fold outputs. The ensemble's own out-of-fold score comes from an outer
    loop over the folds.

    Paper:
        Caruana, Niculescu-Mizil, Crew, Ksikes, Ensemble selection from libraries of models, ICML 2004
    """
    raise UserError(
        "an ensemble combines other methods: run `tailmask fit`, or name it with other methods in "
        "`tailmask compare --methods`"
    )


def other_methods(names: Sequence[str]) -> list[str]:
    """The names without `ensemble`; a `UserError` if none is left to combine.

    >>> other_methods(["linear", "ensemble"])
    ['linear']
    """
    others = [name for name in names if name != ENSEMBLE]
    if not others:
        raise UserError("an ensemble combines other methods: name them too, such as linear trees")
    return others


def make_ensemble(folder: Path, runs: Sequence[Run], config: RunConfig, dataset: Dataset) -> Run:
    """Combine complete runs of one seed with the same folds.

    `config` is that of the method `ensemble`. The runs determine the result: an existing ensemble is made
    again if they have changed.
    """
    record = run_description(config, dataset, world_size=1)
    arms = {run.config["name"]: run.config["digest"] for run in runs}
    there = Run(folder)
    if there.is_complete and there.config.get("arms") == arms:
        return there
    shutil.rmtree(folder, ignore_errors=True)
    begin_session(folder, record | {"arms": arms}, epochs_done=0, threads=torch.get_num_threads())
    raw = raw_data_of(dataset, config)
    targets = raw.development.labelled
    folds = run_folds(raw, config)
    covered = torch.from_numpy(folds.covered)
    outputs = [_outputs(run) for run in runs]
    out_of_fold = []
    for run, (validation, _) in zip(runs, outputs, strict=True):
        if validation.shape != (len(covered), targets.shape[1]):
            raise UserError(f"{run.folder} has outputs for other rows than its data has: train it again")
        out_of_fold.append(torch.full(targets.shape, torch.nan).index_copy_(0, covered, validation))
    scoring = scoring_folds(folds, targets, seed=config.seed)
    fit = fit_ensemble(out_of_fold, targets, scoring, seed=config.seed)
    test = fit.combination.apply([each for _, each in outputs])
    combined = CrossFitted(fit.logits, folds, fit.ensemble(lambda arm: fitted_of(runs[arm])))
    write_cross_fitted(folder, combined, config, dataset, test=test)
    return Run(folder)


def _outputs(run: Run) -> tuple[Tensor, Tensor]:
    """Logits of the validation and test rows under the data's own prevalence, as `fitted_of` gives them."""
    arrays = run.predictions()
    validation, test = (torch.from_numpy(arrays[f"{name}_logits"]) for name in ("validation", "test"))
    shift = None
    if not is_model(run.folder / "model"):
        shift = read_description(run.folder / "model.safetensors").prior_shift
    if shift is None:
        return validation, test
    return apply_prior_shift(validation, torch.tensor(shift)), apply_prior_shift(test, torch.tensor(shift))


def fitted_of(run: Run) -> Fitted:
    """The fitted model of a complete run on a table, made by any engine."""
    if is_model(run.folder / "model"):
        return TrainedModel.load(run.folder / "model").fitted
    return FittedNetwork.from_run(run.folder)
