"""Which choices of a fit raised the out-of-fold scores: thresholds, learner, masking, ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tailmask.comparison.verdict_sentences import points
from tailmask.fitting.leaderboard import ArmScores
from tailmask.methods import Method

__all__ = ["Step", "baseline_of", "what_mattered"]


@dataclass(frozen=True)
class Step:
    """One line of the ablation: out-of-fold scores as shares of 1, and the gain over another line."""

    name: str  # "baseline", "thresholds", "learner", "masking" or "ensemble"
    method: str
    decision: str  # "0.5" or "tuned"; "most probable" if each sample has one label
    f1: float
    map: float
    against: str | None = None  # what the gains are measured against; None for the baseline
    f1_gain: float | None = None
    map_gain: float | None = None

    def sentence(self) -> str:
        """The line for a terminal, with values in % and gains in points.

        >>> Step("thresholds", "bce", "tuned", 0.5, 0.6, "bce at 0.5", 0.1, 0.0).sentence()
        'thresholds: bce, F1 50.0 (+10.0), mAP 60.0 (0.0), against bce at 0.5'
        """
        at = " at 0.5" if self.decision == "0.5" else ""
        f1, precision = f"F1 {100 * self.f1:.1f}", f"mAP {100 * self.map:.1f}"
        if self.f1_gain is None or self.map_gain is None:
            return f"{self.name}: {self.method}{at}, {f1}, {precision}"
        gains = f"{f1} ({points(self.f1_gain)}), {precision} ({points(self.map_gain)})"
        return f"{self.name}: {self.method}{at}, {gains}, against {self.against}"


def baseline_of(methods: Mapping[str, Method]) -> str:
    """The name of the baseline: `bce`, else the first network, else `linear`, else the first method.

    >>> from tailmask.methods import parse
    >>> baseline_of({name: parse(name) for name in ("linear", "plm", "bce")})
    'bce'
    >>> baseline_of({name: parse(name) for name in ("trees", "linear")})
    'linear'
    """

    def rank(name: str) -> int:
        learner = methods[name].learner
        if learner is None:
            return 0 if str(methods[name]) == "bce" else 1
        return 2 if learner.word.name == "linear" else 3

    return min(methods, key=rank)  # the first of equal ones


def what_mattered(scores: Sequence[ArmScores], methods: Mapping[str, Method]) -> tuple[Step, ...]:
    """The ablation, from scores that the fit already has.

    Some steps may be missing. Masking needs the same method without masking, and the learner's step needs a
    best learner other than the baseline.

    Args:
        scores: The leaderboard. A row whose name is not in `methods` is the ensemble.
        methods: The methods that were trained, by name and in order.
    """
    rows = {arm.method: arm for arm in scores}
    single = {name: rows[name] for name in methods}
    plain = single[baseline_of(methods)]
    f1_at_half = plain.f1_at_half
    decision = "most probable" if f1_at_half is None else "tuned"
    best = max(single.values(), key=lambda arm: arm.merit)

    def step(name: str, arm: ArmScores, partner: ArmScores) -> Step:
        own, other = arm.out_of_fold, partner.out_of_fold
        gains = own.f1 - other.f1, own.map - other.map
        return Step(name, arm.method, decision, own.f1, own.map, partner.method, *gains)

    own = plain.out_of_fold
    if f1_at_half is None:
        steps = [Step("baseline", plain.method, decision, own.f1, own.map)]
    else:
        steps = [
            Step("baseline", plain.method, "0.5", f1_at_half, own.map),
            replace(
                step("thresholds", plain, plain),
                against=f"{plain.method} at 0.5",
                f1_gain=own.f1 - f1_at_half,
            ),
        ]
    if best is not plain:
        steps.append(step("learner", best, plain))
    pairs = _masked_pairs(methods)
    if pairs:
        masked, partner = max(pairs, key=lambda pair: single[pair[0]].merit)
        steps.append(step("masking", single[masked], single[partner]))
    steps += [step("ensemble", arm, best) for name, arm in rows.items() if name not in methods]
    return tuple(steps)


def _masked_pairs(methods: Mapping[str, Method]) -> list[tuple[str, str]]:
    """Each method with masking, and the same method without it."""
    return [
        (name, other)
        for name, method in methods.items()
        if method.masking is not None
        for other, candidate in methods.items()
        if candidate == replace(method, masking=None)
    ]
