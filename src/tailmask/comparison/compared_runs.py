"""From many runs to one comparison: the measures of each run, and its differences to the baseline's run."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.calibration import DecisionRule
from tailmask.comparison.arrangement import Experiment, arrange
from tailmask.comparison.clusters import common_labels, numbered, pair_numbers
from tailmask.comparison.comparison_result import Choice, ClassGain, Comparison, Difference, MethodRuns, Row
from tailmask.comparison.intervals import PairedDifferences
from tailmask.comparison.resampling import Resampler, Resamples
from tailmask.comparison.run_outputs import (
    DECISIONS,
    F1_RULE,
    Decision,
    Outputs,
    read_outputs,
    rule_decision,
)
from tailmask.comparison.validation_choice import score_on_validation
from tailmask.metrics import Report
from tailmask.runs.reader import Run

__all__ = ["compare_runs"]

_CLASS_METRICS = ("precision", "recall", "f1", "ap")


def compare_runs(
    runs: Sequence[Run],
    *,
    baseline: str | None = None,
    resamples: int = 2000,
    seed: int = 0,
    decisions: Sequence[Decision] = DECISIONS,
    rule: DecisionRule | str = F1_RULE,
    chosen: Choice | None = None,
    on_run: Callable[[Run], None] | None = None,
) -> Comparison:
    """Compare finished runs of several methods on the same data.

    Each measure of a method has a mean and a standard deviation over its seeds. Its difference to the
    baseline is over the pairs of runs with the same seed, with a 95 % interval over test samples and seeds
    (see `PairedDifferences`). If the first run records which test samples belong together, they are
    resampled together. Incomplete runs, and runs with different data, recipes or budgets, are refused.

    The method and its decision are chosen by scores on validation data, never on the test set.

    Args:
        runs: Complete runs; the order of the methods is that of their first runs.
        baseline: Name of the method to compare with; None: `bce`, else the first that does not mask.
        resamples: Number of resampled test sets.
        seed: Seed of the resampling.
        decisions: Rows to add if the runs have them: the same logits with "tuned thresholds" and with the
            "prior shift"; ("default",) adds none.
        rule: The goal of fitted thresholds; a rule other than F1 replaces "tuned thresholds".
        chosen: The choice, if it was made before, as in `tailmask.fit`; None chooses by the F1 on validation.
        on_run: Called after each run is read, for a progress bar.
    """
    if resamples < 100:
        raise UserError(f"resamples must be 100 or more for an interval, got {resamples}")
    experiment = arrange(runs, baseline=baseline)
    rule = DecisionRule.parse(rule)
    if experiment.single_label and rule != F1_RULE:
        raise UserError(f"each sample gets one label, the most probable one: leave out --decide {rule}")
    table = _Table(experiment, resamples=resamples, seed=seed, decisions=decisions, rule=rule, chosen=chosen)
    for number in sorted({number for by_seed in experiment.runs.values() for number in by_seed}):
        table.add_seed(number, on_run)
    return table.comparison()


@dataclass(frozen=True)
class _Measured:
    report: Report
    resamples: Resamples
    by_member: Resamples | None


def _moved(
    one: _Measured, two: _Measured, values: Callable[[Resamples], Tensor]
) -> tuple[Tensor, Tensor | None]:
    """Differences of two runs (B, K) under resampled test sets, and under resampled members if they exist."""
    moved = values(one.resamples) - values(two.resamples)
    if one.by_member is None or two.by_member is None:
        return moved, None
    return moved, values(one.by_member) - values(two.by_member)


def _defined(resampled: Tensor, point: Tensor) -> Tensor:
    """Resampled measures (B, K); an undefined one is replaced by the measured value (K,)."""
    return torch.where(resampled.isnan(), point, resampled)


class _Table:
    """Fills a comparison seed by seed, and keeps only the measures of each run."""

    def __init__(
        self,
        experiment: Experiment,
        *,
        resamples: int,
        seed: int,
        decisions: Sequence[Decision],
        rule: DecisionRule,
        chosen: Choice | None,
    ) -> None:
        self.experiment = experiment
        self.num_resamples, self.seed, self.rule = resamples, seed, rule
        wanted = [name for name in DECISIONS if name == "default" or name in decisions]
        self.decisions = [rule_decision(rule) if name == "tuned thresholds" else name for name in wanted]
        self.validation = score_on_validation(experiment, self.decisions, rule)
        self.chosen = chosen or self.validation.chosen
        self.class_decision = "default" if self.chosen is None else self.chosen.decision
        self.targets: Tensor | None = None
        self.unit: str | None = None
        self.reports: dict[tuple[str, Decision], list[Report]] = defaultdict(list)
        self.pairs: dict[tuple[str, Decision, Decision], PairedDifferences] = defaultdict(PairedDifferences)
        self.levels: dict[tuple[str, Decision], PairedDifferences] = defaultdict(PairedDifferences)
        self.class_pairs: dict[str, PairedDifferences] = defaultdict(PairedDifferences)
        self.metrics: list[str] = []

    def add_seed(self, seed: int, on_run: Callable[[Run], None] | None) -> None:
        """Measure the runs of all methods with a seed, and pair each with the baseline's run."""
        reference: dict[Decision, _Measured] = {}
        for method, by_seed in self.experiment.runs.items():
            if seed not in by_seed:
                continue
            measured = self._measure(by_seed[seed])
            for decision, values in measured.items():
                self.reports[method, decision].append(values.report)
                point = self._summary(values.report)
                moved, members = self._resampled(values.resamples), values.by_member
                by_member = None if members is None else _defined(self._resampled(members), point)
                self.levels[method, decision].add(point, _defined(moved, point), by_member=by_member)
            if method == self.experiment.baseline:
                reference = measured
            self._pair(method, measured, reference)
            if on_run is not None:
                on_run(by_seed[seed])

    def _measure(self, run: Run) -> dict[Decision, _Measured]:
        outputs = read_outputs(run, self.rule)
        self._check_targets(outputs)
        measured: dict[Decision, _Measured] = {}
        for decision in self.decisions:
            if outputs.offers(decision):
                evaluation = outputs.evaluation(decision)
                measured[decision] = _Measured(
                    evaluation.report(),
                    self.resampler.resample(evaluation),
                    None if self.by_member is None else self.by_member.resample(evaluation),
                )
        self.metrics = self.metrics or list(measured["default"].resamples.summary)
        return measured

    def _check_targets(self, outputs: Outputs) -> None:
        if self.targets is None:
            self.targets = outputs.targets
            self._set_resamplers(outputs)
        elif not torch.equal(outputs.targets, self.targets):
            raise UserError(
                f"the test labels in {outputs.run.folder} differ from those of the other runs: "
                "name only runs on the same data"
            )

    def _set_resamplers(self, outputs: Outputs) -> None:
        """Resample single test samples, their clusters, or both pairs and the members of the pairs."""
        targets, members = outputs.targets, outputs.members
        make = functools.partial(Resampler, *targets.shape, num_resamples=self.num_resamples, seed=self.seed)
        self.by_member: Resampler | None = None
        if members is None or members.min() == members.max():  # one cluster cannot be resampled
            self.resampler = make()
            return
        self.unit = str(outputs.run.config.get("unit") or "group")
        if members.shape[1] == 1:
            self.resampler = make(clusters=members[:, 0])
        else:
            members = numbered(members)
            self.resampler = make(clusters=pair_numbers(members))
            self.by_member = make(clusters=members, strata=common_labels(members, targets))

    def _pair(
        self, method: str, measured: dict[Decision, _Measured], reference: dict[Decision, _Measured]
    ) -> None:
        for decision, one in measured.items():
            other = self._reference(method, decision, reference)
            if other is None:
                continue
            two = reference[other]
            point = self._summary(one.report) - self._summary(two.report)
            moved, by_member = _moved(one, two, self._resampled)
            by_member = None if by_member is None else _defined(by_member, point)
            self.pairs[method, decision, other].add(point, _defined(moved, point), by_member=by_member)
        if method != self.experiment.baseline and reference:
            shown = self.class_decision if self.class_decision in measured else "default"
            one = measured[shown]
            two = reference[self._reference(method, shown, reference) or "default"]
            point = one.report.per_class[self.class_metric] - two.report.per_class[self.class_metric]
            moved, by_member = _moved(one, two, lambda resamples: resamples.classes)
            self.class_pairs[method].add(point, moved, by_member=by_member)

    def _reference(
        self, method: str, decision: Decision, reference: dict[Decision, _Measured]
    ) -> Decision | None:
        """The decision of the baseline's row that a row is compared with: usually the same decision.

        A baseline without a prior shift already has the data's own prior, so its default row is used. The
        baseline itself is compared with its default row: this shows only the effect of the decision.
        """
        if method == self.experiment.baseline:
            return None if decision == "default" else "default"
        if decision == "prior shift" and decision not in reference:
            return "default" if reference else None
        return decision if decision in reference else None

    @property
    def class_metric(self) -> str:
        return "recall" if self.experiment.single_label else "f1"

    def _summary(self, report: Report) -> Tensor:
        return torch.tensor([report.summary[name] for name in self.metrics], dtype=torch.float64)

    def _resampled(self, resamples: Resamples) -> Tensor:
        return torch.stack([resamples.summary[name] for name in self.metrics], dim=1)  # (B, K)

    def comparison(self) -> Comparison:
        """The comparison of all seeds that were added."""
        assert self.targets is not None
        experiment = self.experiment
        methods = tuple(
            MethodRuns(name, next(iter(by_seed.values())).config["method"], tuple(by_seed))
            for name, by_seed in experiment.runs.items()
        )
        return Comparison(
            data=Path(experiment.config["data"]).name,  # shared files must not show folders
            single_label=experiment.single_label,
            budget=float(experiment.config["budget"]),
            num_test=len(self.targets),
            classes=tuple(experiment.classes),
            train_positives=tuple(experiment.train_positives),
            test_positives=tuple((self.targets == 1).sum(dim=0).tolist()),
            methods=methods,
            rows=tuple(self._rows()),
            differences=tuple(self._differences()),
            class_values={
                name: {metric: self._class_means(name, metric) for metric in _CLASS_METRICS}
                for name in experiment.methods
            },
            class_gains=tuple(self._class_gains()),
            resamples=self.num_resamples,
            seed=self.seed,
            unit=self.unit,
            class_decision=self.class_decision,
            validation=self.validation.scores,
            validation_positives=self.validation.positives,
            chosen=self.chosen,
        )

    def _rows(self) -> list[Row]:
        found = []
        for method in self.experiment.methods:
            for decision in self.decisions:
                reports = self.reports.get((method, decision), [])
                ends = self._level_ends(method, decision) if reports else {}
                for metric in reports[0].summary if reports else ():
                    values = torch.tensor([report.summary[metric] for report in reports], dtype=torch.float64)
                    std = float(values.std()) if len(values) > 1 else math.nan
                    low, high = ends.get(metric, (math.nan, math.nan))
                    mean = float(values.mean())
                    found.append(Row(method, decision, metric, mean, std, len(values), low, high))
        return found

    def _level_ends(self, method: str, decision: Decision) -> dict[str, tuple[float, float]]:
        """The interval of each measure's mean, within 0 and 1."""
        low, high = self._interval(self.levels[method, decision])
        ends = zip(low.clamp(min=0.0).tolist(), high.tolist(), strict=True)
        return dict(zip(self.metrics, ends, strict=True))

    def _differences(self) -> list[Difference]:
        found = []
        for (method, decision, reference), pairs in self.pairs.items():
            low, high = self._interval(pairs)
            columns = zip(self.metrics, pairs.mean.tolist(), low.tolist(), high.tolist(), strict=True)
            for metric, mean, lower, upper in columns:
                found.append(
                    Difference(method, decision, reference, metric, mean, lower, upper, n=len(pairs))
                )
        return found

    def _interval(self, pairs: PairedDifferences) -> tuple[Tensor, Tensor]:
        """The interval, clipped to −1 and 1, the range of a difference of two shares."""
        # Each interval has its own generator: it must not depend on the other methods.
        low, high = pairs.interval(generator=torch.Generator().manual_seed(self.seed))
        return low.clamp(min=-1.0), high.clamp(max=1.0)

    def _class_means(self, method: str, metric: str) -> tuple[float, ...]:
        shown = self.class_decision if (method, self.class_decision) in self.reports else "default"
        reports = self.reports[method, shown]
        means = torch.stack([report.per_class[metric].to(torch.float64) for report in reports]).mean(dim=0)
        return tuple(round(value, 6) for value in means.tolist())

    def _class_gains(self) -> list[ClassGain]:
        experiment = self.experiment
        found = []
        for method, pairs in self.class_pairs.items():
            low, high = self._interval(pairs)
            baseline = self._class_means(experiment.baseline, self.class_metric)
            values = self._class_means(method, self.class_metric)
            ends = zip(pairs.mean.tolist(), low.tolist(), high.tolist(), strict=True)
            for index, (difference, lower, upper) in enumerate(ends):
                found.append(
                    ClassGain(
                        method,
                        index,
                        experiment.classes[index],
                        experiment.train_positives[index],
                        baseline[index],
                        values[index],
                        *(round(value, 6) for value in (difference, lower, upper)),
                    )
                )
        return found
