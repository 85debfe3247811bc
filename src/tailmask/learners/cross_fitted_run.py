"""Runs that cross-fit a learner: a run folder as `train` makes it, with out-of-fold outputs in it."""

from __future__ import annotations

import dataclasses
import functools
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tailmask._util.files import write_json
from tailmask._util.messages import UserError
from tailmask.calibration import DecisionRule
from tailmask.data import load
from tailmask.data.dataset import Dataset
from tailmask.data.rows import RawData
from tailmask.data.splits import fold_numbers
from tailmask.learners.cross_fitting import CrossFitted, crossfit
from tailmask.learners.folds import Folds, make_folds
from tailmask.learners.network_learner import NetworkLearner
from tailmask.learners.out_of_fold_decisions import decide
from tailmask.learners.protocol import NEVER, Deadline, Learner
from tailmask.learners.time_limit import TimeLimit, check_time
from tailmask.learners.trained_model import ModelFacts, TrainedModel
from tailmask.masking.ratio_track import Masking
from tailmask.methods import Method
from tailmask.metrics import class_confusion
from tailmask.runs.array_file import write_arrays
from tailmask.runs.config import RunConfig
from tailmask.runs.decision_file import fit_decisions, write_decisions
from tailmask.runs.folder import begin_session, check_folder, end_session
from tailmask.runs.lock import locked
from tailmask.runs.reader import Run
from tailmask.training.context_managers import disk_errors, memory_errors, quiet, terminations
from tailmask.training.engine import Execution, run_description, train
from tailmask.training.loggers import open_logger
from tailmask.training.progress import Progress
from tailmask.training.run_parts import build_parts
from tailmask.training.run_results import MOST_CONFUSED_CLASSES, split_report

__all__ = [
    "learner_of",
    "make_run",
    "raw_data_of",
    "run_folds",
    "scoring_folds",
    "write_cross_fitted",
]

# A single validation part is split into this many parts: thresholds are fitted and scored on different rows.
_PARTS = 5


def make_run(
    config: RunConfig,
    folder: Path | str,
    *,
    dataset: Dataset | None = None,
    execution: Execution | None = None,
    progress: Progress | None = None,
    deadline: Deadline = NEVER,
) -> Run:
    """Make the run in `folder`, with any learner: train it, resume it, or read it.

    One network on one split is trained by `tailmask.training.train`. Everything else is cross-fitted: one
    model per fold, outputs for every row from a model that did not train on it, and thresholds from these
    outputs. A run that would not end before the deadline raises `OutOfTimeError`; a later call resumes it.
    """
    progress = progress or Progress()
    if config.is_plain:
        if deadline != NEVER:
            if not Run(folder).is_complete:
                check_time(0.0, deadline)
            progress = TimeLimit(progress, deadline)
        return train(config, folder, dataset=dataset, execution=execution, progress=progress)
    folder, execution = Path(folder), execution or Execution()
    if execution.devices > 1:
        raise UserError("--devices is for one network without folds: leave it out, or set --folds 1")
    if execution.threads is not None:
        torch.set_num_threads(execution.threads)
    dataset = dataset or load(config.data, config.options)
    raw = raw_data_of(dataset, config)
    record = run_description(config, dataset, world_size=1)
    if config.method.learner is None:
        build_parts(config, dataset)  # raises an error if the run cannot work, before anything is written
    if check_folder(folder, record["determines"]).is_complete:
        return Run(folder)
    with quiet(), disk_errors(folder), memory_errors(config.recipe.schedule.batch_size), locked(folder):
        if not Run(folder).is_complete:  # another process may have completed it meanwhile
            began = time.monotonic()
            begin_session(folder, record, epochs_done=0, threads=torch.get_num_threads())
            with terminations(), open_logger(execution.logger, config, folder):
                _make(config, folder, dataset, raw, record=record, progress=progress, deadline=deadline)
            end_session(folder, seconds=time.monotonic() - began)
    return Run(folder)


def raw_data_of(dataset: Dataset, config: RunConfig) -> RawData:
    """The raw rows of a data set; a UserError if it has none, or if they cannot be cross-fitted."""
    if dataset.raw is None:
        what = str(config.method.learner) if config.method.learner else f"--folds {config.folds}"
        if config.options.finetune:
            raise UserError(
                f"--finetune trains one network on one split, not {what}: leave --finetune out to learn from "
                f"frozen features, or leave {what} out"
            )
        raise UserError(
            f"{what} is for tables and texts, but {dataset.name} has images or too many labels: leave it out"
        )
    if config.folds == 1 and dataset.raw.num_train == len(dataset.raw.development):
        raise UserError(
            f"{config.name} without folds needs a validation split: give the data one, as in "
            "--validation 0.1, or set --folds 5"
        )
    return dataset.raw


def learner_of(config: RunConfig, classes: tuple[str, ...], *, single_label: bool) -> Learner:
    """The learner of a configuration: a network, or the learner that the method names."""
    learner = config.method.learner
    if learner is None:
        return NetworkLearner(config, classes, single_label=single_label)
    built: Learner = learner.build(masking=_masking_of(config.method))
    return built


def _masking_of(method: Method) -> Masking | None:
    """The masking that a method names. Options that only networks have must be at their defaults here."""
    if method.masking is None:
        return None
    fields = {field.name for field in dataclasses.fields(Masking)}
    options = {name: value for name, value in method.masking.options.items() if name in fields}
    return Masking(**{"adapt": "divergence", **options})


def scoring_folds(folds: Folds, targets: npt.NDArray[np.int8], *, seed: int) -> Folds:
    """The folds that fit and score thresholds on different rows: those of the models if there are several.

    A single validation part is split into five.
    """
    if folds.count > 1:
        return folds
    number = np.full(len(targets), -1)
    covered = folds.covered
    parts = min(_PARTS, len(covered))
    groups = None if folds.groups is None else folds.groups[covered]
    number[covered] = fold_numbers(torch.from_numpy(targets[covered]), parts, seed, groups=groups)
    return Folds(number, parts, groups=folds.groups)


def _make(
    config: RunConfig,
    folder: Path,
    dataset: Dataset,
    raw: RawData,
    *,
    record: dict[str, Any],
    progress: Progress,
    deadline: Deadline,
) -> None:
    folds = run_folds(raw, config)
    work = folder / "folds"

    def tell(share: float, text: str) -> None:
        if share < 1:
            epoch = int(share * folds.count)
            progress.step(epoch=epoch + 1, share=share * folds.count - epoch, loss=None, num_samples=0)

    for note in record["notes"]:
        progress.note(note)
    progress.begin(done=0, total=folds.count)
    try:
        result = crossfit(
            learner_of(config, dataset.classes, single_label=dataset.single_label),
            raw.development,
            folds,
            seed=config.seed,
            workdir=work,
            deadline=deadline,
            progress=tell,
        )
        test = result.fitted.logits(raw.test)
        write_cross_fitted(folder, result, config, dataset, test=test)
    finally:
        progress.end()
    shutil.rmtree(work)


def run_folds(raw: RawData, config: RunConfig) -> Folds:
    """The folds of a seed; for one fold, the split of the data set."""
    if config.folds > 1:
        return make_folds(raw.development, config.folds, seed=config.seed)
    number = np.where(np.arange(len(raw.development)) < raw.num_train, -1, 0)
    return Folds(number, 1, groups=raw.development.groups)


def _row_numbers(
    dataset: Dataset, config: RunConfig, covered: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[np.int64]]:
    """Row numbers in the user's file: training rows, rows with out-of-fold outputs, and test rows.

    The second are left out if folds mix the rows of two files.
    """
    numbers = dict(dataset.row_numbers)
    if config.folds == 1 or not numbers:
        return numbers
    validation = numbers.pop("validation", np.empty(0, dtype=np.int64))
    if config.options.validation_file is None:
        numbers["train"] = np.concatenate([numbers["train"], validation])
        numbers["validation"] = numbers["train"][covered]
    return numbers


def _shares(predicted: Tensor) -> list[float]:
    """The share of rows that are predicted positive, per class."""
    shares: list[float] = predicted.double().mean(dim=0).tolist()
    return shares


def write_cross_fitted(
    folder: Path, result: CrossFitted, config: RunConfig, dataset: Dataset, *, test: Tensor
) -> None:
    """Write the outputs, the model and, last, the metrics of a cross-fitted run.

    `test` has the logits (M, C) of the test rows.
    """
    raw, folds = raw_data_of(dataset, config), result.folds
    known, covered = torch.from_numpy(raw.test.labelled), folds.covered
    scoring = scoring_folds(folds, raw.development.labelled, seed=config.seed)
    logits = result.logits[torch.from_numpy(covered)]  # out of fold
    targets = torch.from_numpy(raw.development.labelled[covered])
    arrays: dict[str, npt.NDArray[Any]] = {
        "test_logits": test.numpy(),
        "test_targets": raw.test.labelled,
        "validation_logits": logits.numpy(),
        "validation_targets": targets.numpy(),
        "validation_folds": scoring.number[covered],
    }
    if dataset.test.members is not None:
        arrays["test_members"] = dataset.test.members
    numbers = _row_numbers(dataset, config, covered)
    arrays |= {f"{name}_rows": rows for name, rows in numbers.items()}
    write_arrays(folder / "predictions.npz", arrays)
    decisions = None
    if not dataset.single_label:
        decisions = decide(result.logits, raw.development.labelled, scoring)
    recipe = config.recipe.evaluation
    facts = ModelFacts(
        method=config.name,
        classes=dataset.classes,
        single_label=dataset.single_label,
        activation=config.method.activation,
        threshold=recipe.threshold,
        thresholds=None if decisions is None else tuple(decisions.thresholds.tolist()),
    )
    shutil.rmtree(folder / "model", ignore_errors=True)  # left by a killed process
    assert raw.development.format is not None
    TrainedModel(result.fitted, raw.development.format, facts).save(folder / "model")

    report = functools.partial(split_report, dataset, config)
    reports = {"test": report(test, known), "validation": report(logits, targets)}
    if decisions is not None:
        reports["test_tuned"] = report(test, known, decisions.thresholds)
        # If the shares differ much, thresholds from single models do not fit the mean of the models.
        reports["test_tuned"]["predicted_share"] = {
            "out_of_fold": _shares(decisions.predicted[covered]),
            "test": _shares(test.double().sigmoid() >= decisions.thresholds),
        }
        expected = fit_decisions(
            DecisionRule(),
            logits.sigmoid(),
            targets,
            classes=dataset.classes,
            folds=scoring.number[covered],
            members=None if folds.groups is None else folds.groups[covered, None],
            thresholds=decisions.thresholds,
        )
        if expected is not None:
            write_decisions(folder, expected)
    elif len(dataset.classes) <= MOST_CONFUSED_CLASSES:
        reports["test"]["confusion"] = class_confusion(test, known).tolist()
    write_json(folder / "metrics.json", reports)
