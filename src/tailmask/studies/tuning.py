"""Choose λ on the validation split before the study; every trial is recorded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tailmask._util.messages import UserError
from tailmask.masking.schedule import Schedule
from tailmask.methods import parse
from tailmask.runs import ResolvedSetting, Run
from tailmask.studies.planned_runs import PlannedRun, plan_runs
from tailmask.studies.worker_pool import Failure

__all__ = [
    "RATES",
    "TUNING_SEED",
    "Trial",
    "choose_rate",
    "earlier_trials",
    "plan_tuning",
    "tunable",
    "with_rate",
]

RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
# This is not a seed of the study: a run that chose λ must not also count as a result.
TUNING_SEED = 1_000_000


@dataclass(frozen=True)
class Trial:
    """One λ that was tried for a method: its macro-F1 on validation, None if the run failed.

    `resolved` is the full method, with λ scaled to the budget.
    """

    method: str
    rate: float
    resolved: str
    validation_f1: float | None
    chosen: bool


def with_rate(method: str, rate: float) -> str:
    """The method with this λ.

    >>> with_rate("plm+focal", 0.1)
    'plm:rate=0.1+focal'
    """
    return str(parse(method).with_options("plm", rate=rate))


def tunable(methods: list[str]) -> list[str]:
    """The methods that mask labels and leave λ open; a `UserError` if there are none.

    >>> tunable(["bce", "plm", "plm:rate=0.1"])
    ['plm']
    """
    masking = {method: parse(method).masking for method in methods}
    chosen = [method for method, part in masking.items() if part is not None and part.get("rate") is None]
    if not chosen:
        raise UserError("--tune rate needs a method with plm and without its own rate, such as plm")
    return chosen


def plan_tuning(
    setting: ResolvedSetting, methods: list[str], *, folder: Path
) -> dict[str, dict[float, PlannedRun]]:
    """The runs that try each λ, by method and λ."""
    return {method: _tries(setting, method, folder=folder) for method in methods}


def _tries(setting: ResolvedSetting, method: str, *, folder: Path) -> dict[float, PlannedRun]:
    """One run per λ. If the budget makes two of them equal, only the higher one's run."""
    rates = _rates(setting, method)
    runs = plan_runs(setting, [with_rate(method, rate) for rate in rates], [TUNING_SEED], folder=folder)
    distinct = {str(run.config.method): (rate, run) for rate, run in zip(rates, runs, strict=True)}
    return dict(distinct.values())


def _rates(setting: ResolvedSetting, method: str) -> list[float]:
    """Every λ to try. The update by prevalence adds its own λ for the number of epochs."""
    masking = setting.config(method, TUNING_SEED).method.masking
    if masking is None or masking.get("adapt") != "prevalence":
        return list(RATES)
    return sorted({*RATES, Schedule.of("prevalence", rate=masking.get("rate")).rate})


def choose_rate(
    method: str, runs: dict[float, PlannedRun], failures: list[Failure]
) -> tuple[str, list[Trial]]:
    """The method with the λ of the highest macro-F1 on validation (the lower if equal), and all trials."""
    scores = {rate: _validation_f1(run) for rate, run in runs.items()}
    best = max((score for score in scores.values() if score is not None), default=None)
    if best is None:
        reasons = [failure.sentence for failure in failures if failure.run in runs.values()]
        raise UserError(
            f"no λ could be tried for {method}: {reasons[0] if reasons else 'no run is complete'}"
        )
    winner = next(rate for rate, score in scores.items() if score == best)
    trials = [
        Trial(method, rate, str(run.config.method), scores[rate], chosen=rate == winner)
        for rate, run in runs.items()
    ]
    return runs[winner].config.name, trials


def earlier_trials(path: Path, *, besides: list[Trial]) -> list[Trial]:
    """The recorded trials of a study, except for the methods that were tried again."""
    again = {trial.method for trial in besides}
    try:
        trials = [Trial(**trial) for trial in json.loads(path.read_text(encoding="utf-8"))["trials"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # none yet, or damaged
        return []
    return [trial for trial in trials if trial.method not in again]


def _validation_f1(run: PlannedRun) -> float | None:
    made = Run(run.folder)
    if not made.is_complete:
        return None
    score: float | None = made.metrics["validation"]["summary"]["f1"]
    return score
