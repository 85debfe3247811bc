"""The result of a comparison: plain values by method and measure; can be written and read as JSON."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Any

from tailmask._util.messages import UserError
from tailmask.comparison.measures import describe, headline, ordered
from tailmask.comparison.run_outputs import Decision

__all__ = [
    "FORMAT",
    "Choice",
    "ClassGain",
    "Comparison",
    "Difference",
    "MethodRuns",
    "Row",
    "ValidationScore",
    "row_name",
]

FORMAT = "tailmask.comparison/1"


def row_name(method: str, decision: Decision = "default") -> str:
    """The name of a row in a table.

    >>> row_name("plm"), row_name("bce", "tuned thresholds")
    ('plm', 'bce + tuned thresholds')
    """
    return method if decision == "default" else f"{method} + {decision}"


@dataclass(frozen=True)
class MethodRuns:
    """A method of the comparison: its name, its name with all options, and its seeds."""

    name: str
    full_name: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """Mean and standard deviation of a measure over `n` seeds; the deviation is NaN with one seed.

    `low` and `high` are the ends of the mean's 95 % interval over test samples and seeds, or NaN.
    """

    method: str
    decision: Decision
    metric: str
    mean: float
    std: float
    n: int
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Difference:
    """Mean paired difference to the baseline over `n` seeds, with its interval.

    `reference` is the decision of the baseline, `decision` that of the method.
    """

    method: str
    decision: Decision
    reference: Decision
    metric: str
    mean: float
    low: float
    high: float
    n: int

    @property
    def effect(self) -> int:
        """1 if the whole interval is better, −1 if the whole interval is worse, 0 if it contains zero.

        >>> Difference("plm", "default", "default", "error", -0.03, -0.05, -0.01, 3).effect
        1
        """
        sign = 1 if describe(self.metric).higher_is_better else -1
        return sign * (int(self.low > 0) - int(self.high < 0))


@dataclass(frozen=True)
class ClassGain:
    """The gain (or loss) of a class in F1, or in recall for single-label data, with its interval."""

    method: str
    index: int
    name: str
    train_positives: int
    baseline: float
    value: float
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class ValidationScore:
    """The validation score of a method and decision, with cross-fitted thresholds: the mean over the seeds.

    The score is the F1, or the error for single-label data, as a mean over the classes.
    """

    method: str
    decision: Decision
    mean: float
    n: int


@dataclass(frozen=True)
class Choice:
    """The method and the decision with the best validation score, and the run to predict with."""

    method: str
    decision: Decision
    seed: int
    run: str  # name of the run's folder


@dataclass(frozen=True)
class Comparison:
    """Methods compared on one test set; the first method is the baseline.

    Values are from 0 to 1. `class_values[method][metric]` has one mean over the seeds per class. These values
    and `class_gains` use the decision `class_decision`. `unit` is what the intervals resample, such as
    "digit"; None means single test samples. `validation` is None in old records without validation scores,
    and empty if the runs have no validation data; `chosen` is None then.
    """

    data: str
    single_label: bool
    budget: float
    num_test: int
    classes: tuple[str, ...]
    train_positives: tuple[int, ...]
    test_positives: tuple[int, ...]
    methods: tuple[MethodRuns, ...]
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]
    class_values: dict[str, dict[str, tuple[float, ...]]]
    class_gains: tuple[ClassGain, ...]
    resamples: int
    seed: int
    level: float = 0.95
    unit: str | None = None
    class_decision: Decision = "default"
    validation: tuple[ValidationScore, ...] | None = None
    validation_positives: tuple[int, ...] | None = None
    chosen: Choice | None = None

    @property
    def baseline(self) -> str:
        """Name of the baseline method."""
        return self.methods[0].name

    @property
    def metrics(self) -> list[str]:
        """Names of the measures, in the order of a table."""
        return ordered(dict.fromkeys(row.metric for row in self.rows))

    @property
    def headline(self) -> list[str]:
        """The main measures, without the K rarest classes if they are the tail, or if all values are 0."""
        tail = (len(self.classes) + 1) // 3
        names = headline(self.metrics, single_label=self.single_label)
        same = {f"{name}_rarest_{tail}" for name in ("f1", "error") if f"{name}_tail" in names}
        seen = {row.metric for row in self.rows if row.mean != 0}
        return [name for name in names if name not in same and ("_rarest_" not in name or name in seen)]

    @property
    def row_keys(self) -> list[tuple[str, Decision]]:
        """Method and decision of each row of a table."""
        return list(dict.fromkeys((row.method, row.decision) for row in self.rows))

    @property
    def verdict(self) -> str:
        """The result in a few sentences."""
        from tailmask.comparison.verdict_sentences import verdict

        return verdict(self).text

    def row(self, method: str, metric: str, decision: Decision = "default") -> Row | None:
        """One cell of the table; None if there is none."""
        return self._rows.get((method, decision, metric))

    def difference(
        self,
        method: str,
        metric: str,
        *,
        decision: Decision = "default",
        reference: Decision = "default",
    ) -> Difference | None:
        """One paired difference; None if there is none, or if it is NaN, as for absent classes."""
        found = self._differences.get((method, decision, reference, metric))
        return None if found is None or math.isnan(found.mean) else found

    def like_for_like(self, method: str, metric: str, decision: Decision = "default") -> Difference | None:
        """The difference to the baseline with the same decision; None for the baseline itself.

        So a method gets no credit for a gain that tuned thresholds also give the baseline. A baseline
        that masks no labels has no prior shift, because its outputs already have the data's own prior. A
        method with the prior shift is compared with its default row.
        """
        alike = self.difference(method, metric, decision=decision, reference=decision)
        if alike is not None or decision != "prior shift" or method == self.baseline:
            return alike
        return self.difference(method, metric, decision=decision)

    def gains(self, method: str, *, number: int = 5) -> tuple[list[ClassGain], list[ClassGain]]:
        """The classes that gained most and the classes that lost most, the greatest change first.

        A change of less than 0.05 points is shown as 0.0 and counts as no change.
        """
        own = sorted(
            (gain for gain in self.class_gains if gain.method == method), key=lambda gain: gain.difference
        )
        lost = [gain for gain in own if round(100 * gain.difference, 1) < 0]
        gained = [gain for gain in reversed(own) if round(100 * gain.difference, 1) > 0]
        return gained[:number], lost[:number]

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers; None for undefined numbers."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"format": FORMAT, "verdict": self.verdict} | {k: _plain(v) for k, v in values.items()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Comparison:
        """The comparison that `to_json` wrote."""
        if value.get("format") != FORMAT:
            raise UserError(f"a comparison must have the format {FORMAT!r}, got {value.get('format')!r}")
        kinds = {"methods": MethodRuns, "rows": Row, "differences": Difference, "class_gains": ClassGain}
        fields = {name: part for name, part in value.items() if name not in ("format", "verdict")}
        for name, kind in kinds.items():
            fields[name] = tuple(kind(**_restored(part)) for part in fields[name])
        if fields.get("validation") is not None:
            fields["validation"] = tuple(ValidationScore(**_restored(part)) for part in fields["validation"])
        if fields.get("chosen") is not None:
            fields["chosen"] = Choice(**fields["chosen"])
        for name in ("classes", "train_positives", "test_positives", "validation_positives"):
            if fields.get(name) is not None:
                fields[name] = tuple(fields[name])
        fields["class_values"] = {
            method: {metric: tuple(_number(part) for part in parts) for metric, parts in values.items()}
            for method, values in fields["class_values"].items()
        }
        return cls(**fields)

    @functools.cached_property
    def _rows(self) -> dict[tuple[str, Decision, str], Row]:
        return {(row.method, row.decision, row.metric): row for row in self.rows}

    @functools.cached_property
    def _differences(self) -> dict[tuple[str, Decision, Decision, str], Difference]:
        return {(d.method, d.decision, d.reference, d.metric): d for d in self.differences}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _restored(value: dict[str, Any]) -> dict[str, Any]:
    """Fields of a record: lists become tuples, None becomes NaN."""
    return {name: tuple(part) if isinstance(part, list) else _number(part) for name, part in value.items()}


def _number(value: Any) -> Any:
    return math.nan if value is None else value
