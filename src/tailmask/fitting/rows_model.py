"""The best model for rows in memory: arms cross-fitted and combined, without run folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from tailmask._util.messages import UserError
from tailmask.data.facts import DataFacts
from tailmask.data.rows import Rows
from tailmask.fitting.leaderboard import ranking_f1
from tailmask.learners.cross_fitted_run import learner_of
from tailmask.learners.cross_fitting import CrossFitted, crossfit
from tailmask.learners.ensemble import Ensemble, fit_ensemble
from tailmask.learners.folds import make_folds
from tailmask.learners.out_of_fold_decisions import decide
from tailmask.learners.protocol import NEVER, Deadline, silent
from tailmask.learners.time_limit import OutOfTimeError
from tailmask.metrics.precision_recall import average_precision
from tailmask.runs import Setting

__all__ = ["RowsModel", "fit_rows"]


@dataclass(frozen=True, eq=False)
class RowsModel:
    """The result of `fit_rows`."""

    fitted: Ensemble
    thresholds: npt.NDArray[np.float64]  # (C,)
    leaderboard: dict[str, dict[str, float]]  # out-of-fold F1 and mAP of each method
    weights: dict[str, float]  # of each method in the ensemble


def fit_rows(
    rows: Rows,
    *,
    classes: Sequence[str],
    single_label: bool,
    methods: Sequence[str],
    folds: int,
    epochs: int | None,
    minutes: float | None,
    seed: int,
    workdir: Path,
) -> RowsModel:
    """Cross-fit each method, combine them, and fit thresholds on the ensemble's out-of-fold outputs.

    Copies of a row are in the same fold.
    """
    rows = rows.with_copies_together()
    deadline = NEVER if minutes is None else Deadline.after(60 * minutes)
    shape = (int(rows.features.shape[1]),)
    facts = DataFacts({}, tuple(classes), shape, single_label, has_validation=True, raw_rows=len(rows))
    setting = Setting("frame", epochs=epochs, folds=min(folds, len(rows))).resolve(facts)
    cut = make_folds(rows, setting.folds, seed=seed)
    targets = rows.labelled
    arms: dict[str, CrossFitted] = {}
    for number, method in enumerate(methods):
        learner = learner_of(setting.config(method, seed), tuple(classes), single_label=single_label)
        work = workdir / str(number)
        try:
            arms[method] = crossfit(
                learner, rows, cut, seed=seed, workdir=work, deadline=deadline, progress=silent
            )
        except OutOfTimeError as error:
            late = error
    if not arms:
        raise UserError(f"no method could be trained in time ({late}): give it more minutes")
    fit = fit_ensemble([arm.logits for arm in arms.values()], targets, cut, seed=seed)
    labels = torch.from_numpy(targets)
    decisions = {name: decide(arm.logits, targets, cut) for name, arm in arms.items()}
    fitted = list(arms.values())
    return RowsModel(
        fitted=fit.ensemble(lambda arm: fitted[arm].fitted),
        thresholds=decide(fit.logits, targets, cut).thresholds.numpy(),
        leaderboard={
            name: {
                "f1": ranking_f1(decisions[name]),
                "map": float(average_precision(arm.logits, labels).nanmean()),
            }
            for name, arm in arms.items()
        },
        weights=dict(zip(arms, fit.combination.weights.tolist(), strict=True)),
    )
