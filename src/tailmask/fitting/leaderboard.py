"""How good each arm is: out-of-fold scores, to choose by, and test scores, to report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tailmask.learners.cross_fitted_run import scoring_folds
from tailmask.learners.decisions import Decisions, decide
from tailmask.learners.folds import Folds
from tailmask.metrics import class_groups, evaluate
from tailmask.metrics.classwise import confusion
from tailmask.runs.reader import Run

__all__ = ["ArmScores", "ModelScores", "best_arm", "f1_at_half", "ranking_f1", "score_arm"]


@dataclass(frozen=True)
class ModelScores:
    """Shares of 1: macro-F1 with tuned thresholds over all classes and the rarest third, mAP, calibration."""

    f1: float
    f1_tail: float | None
    map: float
    brier: float
    ece: float


@dataclass(frozen=True)
class ArmScores:
    """One row of the leaderboard."""

    method: str
    out_of_fold: ModelScores  # thresholds fitted on other folds than those that they are scored on
    test: ModelScores
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """A flat object: the out-of-fold scores, and those of the test rows below `test`."""
        return {
            "method": self.method,
            **asdict(self.out_of_fold),
            "seconds": round(self.seconds, 1),
            "test": asdict(self.test),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ArmScores:
        """The row that `to_json` wrote."""
        own = ModelScores(**{field.name: value[field.name] for field in fields(ModelScores)})
        return cls(str(value["method"]), own, ModelScores(**value["test"]), float(value["seconds"]))


def score_arm(run: Run) -> ArmScores:
    """The scores of a finished run. Classes too rare to be judged have no say in the out-of-fold F1."""
    arrays = run.predictions()
    positives = torch.tensor(run.config["train_counts"][1])
    logits, targets = torch.from_numpy(arrays["validation_logits"]), arrays["validation_targets"]
    single = run.config["single_label"]
    report = evaluate(
        logits, torch.from_numpy(targets), train_positives=positives, thresholds=0.5, single_label=single
    )
    out_of_fold = _scores(report.summary)
    if not single:
        decisions = decide(logits, targets, _folds(arrays, seed=run.config["seed"]))
        tail = class_groups(positives).get("tail")
        rarest = [] if tail is None else [c for c in tail.tolist() if c not in decisions.rare]
        out_of_fold = ModelScores(
            ranking_f1(decisions),
            float(decisions.f1[rarest].mean()) if rarest else None,
            out_of_fold.map,
            out_of_fold.brier,
            out_of_fold.ece,
        )
    test = run.metrics["test" if single else "test_tuned"]["summary"]
    return ArmScores(run.config["name"], out_of_fold, _scores(test), run.seconds)


def f1_at_half(run: Run) -> float | None:
    """Out-of-fold macro-F1 of a run with the threshold 0.5, over the classes that `score_arm` counts.

    None if each sample has one label, because there are no thresholds.
    """
    if run.config["single_label"]:
        return None
    arrays = run.predictions()
    logits, targets = torch.from_numpy(arrays["validation_logits"]), arrays["validation_targets"]
    f1 = confusion(logits.sigmoid() >= 0.5, torch.from_numpy(targets)).f1
    rare = _folds(arrays, seed=run.config["seed"]).rare_classes(targets)
    others = [c for c in range(len(f1)) if c not in rare] or list(range(len(f1)))
    return float(f1[others].mean())


def ranking_f1(decisions: Decisions) -> float:
    """Macro-F1 over the classes that are not too rare to be judged, or over all where all are too rare."""
    return float(decisions.f1.mean() if len(decisions.rare) == len(decisions.f1) else decisions.macro_f1)


def _folds(arrays: Mapping[str, npt.NDArray[Any]], *, seed: int) -> Folds:
    """The folds that thresholds are fitted and scored on; one validation part is cut into five."""
    number = arrays.get("validation_folds")
    targets = arrays["validation_targets"]
    if number is None:
        return scoring_folds(Folds(np.zeros(len(targets), dtype=np.int64), 1), targets, seed=seed)
    return Folds(number, int(number.max()) + 1)


def best_arm(scores: Iterable[ArmScores]) -> ArmScores:
    """The arm with the highest mean of out-of-fold F1 and mAP; the first of equals.

    F1 is what people decide by and mAP is less noisy, so the mean chooses better than either.
    """
    return max(scores, key=lambda arm: arm.out_of_fold.f1 + arm.out_of_fold.map)


def _scores(summary: dict[str, Any]) -> ModelScores:
    values = {name: summary.get(name) for name in ("f1", "ap", "brier", "ece")}
    f1, ap, brier, ece = (0.0 if value is None else float(value) for value in values.values())
    return ModelScores(f1, summary.get("f1_tail"), ap, brier, ece)
