"""The scores of each arm: out-of-fold scores to choose by, and test scores to report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tailmask.learners.cross_fitted_run import scoring_folds
from tailmask.learners.folds import Folds
from tailmask.learners.out_of_fold_decisions import Decisions, decide
from tailmask.metrics import class_groups
from tailmask.metrics.classwise import confusion
from tailmask.runs.reader import Run

__all__ = ["ArmScores", "ModelScores", "ranked", "ranking_f1", "score_arm"]


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
    out_of_fold: ModelScores  # thresholds are fitted and scored on different folds
    test: ModelScores
    seconds: float
    f1_at_half: float | None = None  # out-of-fold F1 with the threshold 0.5; None for one label per sample

    @property
    def merit(self) -> float:
        """The sum of out-of-fold F1 and mAP, to choose by: users care about F1, and mAP is less noisy."""
        return self.out_of_fold.f1 + self.out_of_fold.map

    def to_json(self) -> dict[str, Any]:
        """A flat object: the out-of-fold scores, and the test scores under `test`."""
        return {
            "method": self.method,
            **asdict(self.out_of_fold),
            "f1_at_half": self.f1_at_half,
            "seconds": round(self.seconds, 1),
            "test": asdict(self.test),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ArmScores:
        """The row that `to_json` wrote."""
        own = ModelScores(**{field.name: value[field.name] for field in fields(ModelScores)})
        test, seconds = ModelScores(**value["test"]), float(value["seconds"])
        return cls(str(value["method"]), own, test, seconds, value["f1_at_half"])


def score_arm(run: Run) -> ArmScores:
    """The scores of a finished run. Classes that are too rare do not count in the out-of-fold F1."""
    arrays = run.predictions()
    single = run.config["single_label"]
    out_of_fold, f1_at_half = _scores(run.metrics["validation"]["summary"]), None
    if not single:
        logits, targets = torch.from_numpy(arrays["validation_logits"]), arrays["validation_targets"]
        decisions = decide(logits, targets, _folds(arrays, seed=run.config["seed"]))
        tail = class_groups(run.config["train_counts"][1]).get("tail")
        rarest = [] if tail is None else [c for c in tail.tolist() if c not in decisions.rare]
        f1_tail = float(decisions.f1[rarest].mean()) if rarest else None
        out_of_fold = replace(out_of_fold, f1=ranking_f1(decisions), f1_tail=f1_tail)
        at_half = confusion(logits.sigmoid() >= 0.5, torch.from_numpy(targets)).f1
        f1_at_half = ranking_f1(replace(decisions, f1=at_half))
    test = run.metrics["test" if single else "test_tuned"]["summary"]
    return ArmScores(run.config["name"], out_of_fold, _scores(test), run.seconds, f1_at_half)


def ranking_f1(decisions: Decisions) -> float:
    """Macro-F1 over the classes that are not too rare, or over all classes if all are too rare."""
    return float(decisions.f1.mean() if len(decisions.rare) == len(decisions.f1) else decisions.macro_f1)


def _folds(arrays: Mapping[str, npt.NDArray[Any]], *, seed: int) -> Folds:
    """The folds that thresholds are fitted and scored on; a single validation part is split into five."""
    number = arrays.get("validation_folds")
    targets = arrays["validation_targets"]
    if number is None:
        return scoring_folds(Folds(np.zeros(len(targets), dtype=np.int64), 1), targets, seed=seed)
    return Folds(number, int(number.max()) + 1)


def ranked(scores: Iterable[ArmScores]) -> list[ArmScores]:
    """The arms by `ArmScores.merit`, the best first; equal arms keep their order."""
    return sorted(scores, key=lambda arm: -arm.merit)


def _scores(summary: dict[str, Any]) -> ModelScores:
    f1, ap, brier, ece = (float(summary.get(name) or 0.0) for name in ("f1", "ap", "brier", "ece"))
    return ModelScores(f1, summary.get("f1_tail"), ap, brier, ece)
