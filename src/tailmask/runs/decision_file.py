"""`decisions.json` of a run: the threshold of each class, and its expected scores on new data."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.files import write_json
from tailmask._util.messages import UserError
from tailmask._util.serialization import from_mapping
from tailmask.calibration import DecisionRule, ExpectedScores, expected_scores
from tailmask.data.splits import fold_numbers

__all__ = [
    "FEWEST_POSITIVES",
    "ClassDecision",
    "RunDecisions",
    "few_positives",
    "fit_decisions",
    "read_decisions",
    "validation_folds",
    "write_decisions",
]

FORMAT = "tailmask.decisions/1"
NUM_FOLDS = 5

# With fewer positives than folds, some fold has none, and the class has no score there. Five is the smallest
# useful number: if all five are found, the exact 95 % interval of recall begins at 0.48.
FEWEST_POSITIVES = NUM_FOLDS


@dataclass(frozen=True)
class ClassDecision:
    """The threshold of a class, and the scores of cross-fitted thresholds on validation data.

    The 95 % intervals include the choice of the threshold. `promises` is false if there are fewer positives
    than `FEWEST_POSITIVES`: the scores are then mostly chance, and there are no intervals.
    """

    name: str
    threshold: float
    positives: int
    precision: float
    recall: float
    f1: float
    precision_interval: tuple[float, float] | None
    recall_interval: tuple[float, float] | None
    f1_interval: tuple[float, float] | None
    promises: bool


@dataclass(frozen=True)
class RunDecisions:
    """Thresholds of all classes for one rule, fitted on a run's validation or out-of-fold outputs."""

    rule: str
    samples: int
    folds: int
    classes: tuple[ClassDecision, ...]

    @property
    def thresholds(self) -> Tensor:
        """The thresholds (C,)."""
        return torch.tensor([each.threshold for each in self.classes])


def validation_folds(targets: Tensor, members: NDArray[np.int64] | None = None) -> NDArray[np.int64] | None:
    """The fold of each validation row, (N,), for cross-fitting thresholds; None if there are too few rows.

    Folds are stratified by label. Rows of one group, the first column of `members`, are in one fold.

    >>> validation_folds(torch.eye(2, dtype=torch.int8).repeat(5, 1)).tolist().count(0)
    2
    """
    groups = None if members is None else np.unique(members[:, 0], return_inverse=True)[1]
    number = len(targets) if groups is None else len(np.unique(groups))
    if number < 2:
        return None
    return fold_numbers(targets, min(NUM_FOLDS, number), seed=0, groups=groups)


def fit_decisions(
    rule: DecisionRule,
    probabilities: Tensor,
    targets: Tensor,
    *,
    classes: Sequence[str],
    members: NDArray[np.int64] | None = None,
    folds: NDArray[np.int64] | None = None,
    thresholds: Tensor | None = None,
) -> RunDecisions | None:
    """Thresholds for a rule, and their expected scores; None if nothing can be cross-fitted.

    Pass `folds` (N,) and `thresholds` (C,) if the run already has them. Rows of one group, the first column
    of `members`, are in one fold, and intervals draw them together.
    """
    thresholds = rule.fit(probabilities, targets) if thresholds is None else thresholds
    folds = validation_folds(targets, members) if folds is None else folds
    if thresholds is None or folds is None:
        return None
    groups = None if members is None else members[:, 0]
    found = expected_scores(rule, probabilities, targets, folds, groups=groups, fewest=FEWEST_POSITIVES)
    decided = tuple(
        ClassDecision(
            name,
            threshold=float(thresholds[index]),
            positives=int(found.positives[index]),
            precision=float(found.scores["precision"][index]),
            recall=float(found.scores["recall"][index]),
            f1=float(found.scores["f1"][index]),
            precision_interval=_ends(found, "precision", index),
            recall_interval=_ends(found, "recall", index),
            f1_interval=_ends(found, "f1", index),
            promises=int(found.positives[index]) >= FEWEST_POSITIVES,
        )
        for index, name in enumerate(classes)
    )
    return RunDecisions(str(rule), len(targets), int(folds.max()) + 1, decided)


def few_positives(positives: Sequence[int]) -> str | None:
    """A warning about classes with too few validation positives; None if all have enough.

    >>> few_positives([9, 4, 0])
    '2 of 3 classes have fewer than 5 validation positives: their expected scores are mostly chance.'
    """
    few = sum(number < FEWEST_POSITIVES for number in positives)
    if not few:
        return None
    has = "class has" if len(positives) == 1 else "classes has" if few == 1 else "classes have"
    return (
        f"{few} of {len(positives)} {has} fewer than {FEWEST_POSITIVES} validation positives: "
        f"{'its' if few == 1 else 'their'} expected scores are mostly chance."
    )


def write_decisions(folder: Path, decisions: RunDecisions) -> None:
    """Write `decisions.json` into a run folder."""
    write_json(folder / "decisions.json", {"format": FORMAT, **dataclasses.asdict(decisions)})


def read_decisions(folder: Path) -> RunDecisions | None:
    """The decisions of a run; None if it has none."""
    path = folder / "decisions.json"
    try:
        fields: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        found = from_mapping(RunDecisions, fields)
        if not all(0.0 <= each.threshold <= 1.0 for each in found.classes):
            raise ValueError("thresholds must lie between 0 and 1")
        ends = [(each.precision_interval, each.recall_interval, each.f1_interval) for each in found.classes]
        if not all(pair is None or len(pair) == 2 for pairs in ends for pair in pairs):
            raise ValueError("an interval must have two ends")
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    return found


def _ends(found: ExpectedScores, name: str, index: int) -> tuple[float, float] | None:
    low, high = float(found.low[name][index]), float(found.high[name][index])
    return None if math.isnan(low) else (low, high)
