"""Choose the method and the decision only by validation scores, never by the test set."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tailmask.calibration import DecisionRule
from tailmask.comparison.arrangement import Experiment
from tailmask.comparison.comparison_result import Choice, ValidationScore
from tailmask.comparison.run_outputs import F1_RULE, Decision, read_outputs, rule_decision

__all__ = ["ValidationResult", "choose", "score_on_validation"]


@dataclass(frozen=True)
class ValidationResult:
    """Validation scores of all methods and decisions, the positives of each class, and the choice."""

    scores: tuple[ValidationScore, ...]
    positives: tuple[int, ...] | None
    chosen: Choice | None


def score_on_validation(
    experiment: Experiment, decisions: Sequence[Decision], rule: DecisionRule
) -> ValidationResult:
    """Validation scores of every run, and the choice; nothing is chosen without validation outputs."""
    found: dict[tuple[str, Decision], dict[int, float]] = defaultdict(dict)
    positives: tuple[int, ...] | None = None
    for method, by_seed in experiment.runs.items():
        for seed, run in by_seed.items():
            outputs = read_outputs(run, rule)
            if outputs.validation is not None and positives is None:
                positives = tuple((outputs.validation[1] == 1).sum(dim=0).tolist())
            for decision in decisions:
                score = outputs.validation_score(decision) if outputs.offers(decision) else None
                if score is not None:
                    found[method, decision][seed] = score
    scores = tuple(
        ValidationScore(method, decision, sum(values.values()) / len(values), len(values))
        for (method, decision), values in found.items()
    )
    best = choose(scores, single_label=experiment.single_label, rule=rule)
    chosen = None
    if best is not None:
        values = found[best.method, best.decision]
        sign = -1 if experiment.single_label else 1
        seed = max(values, key=lambda each: (sign * values[each], -each))
        folder = experiment.runs[best.method][seed].folder
        chosen = Choice(best.method, best.decision, seed, folder.resolve().name)
    return ValidationResult(scores, positives, chosen)


def choose(
    scores: Sequence[ValidationScore], *, single_label: bool, rule: DecisionRule = F1_RULE
) -> ValidationScore | None:
    """The best score; of equal ones the first. With a rule other than F1, only its own rows count.

    >>> scores = [ValidationScore("bce", "default", 0.5, 3), ValidationScore("plm", "default", 0.6, 3)]
    >>> choose(scores, single_label=False).method, choose(scores, single_label=True).method
    ('plm', 'bce')
    """
    able = [each for each in scores if rule == F1_RULE or each.decision == rule_decision(rule)]
    return max(able, key=lambda each: -each.mean if single_label else each.mean, default=None)
