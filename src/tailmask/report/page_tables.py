"""The page's tables as texts and numbers for its template."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tailmask.comparison.chosen_classes import by_frequency
from tailmask.comparison.comparison_result import ClassGain, Comparison, Difference
from tailmask.comparison.measures import describe, primary
from tailmask.comparison.run_outputs import Decision, read_outputs
from tailmask.comparison.verdict_sentences import interval_text, points, shown_decision
from tailmask.metrics import class_confusion, class_groups
from tailmask.report.comparison_text import mean_text
from tailmask.runs.reader import Run

__all__ = [
    "Bar",
    "Cell",
    "Confused",
    "Gain",
    "Line",
    "Rank",
    "SmallTable",
    "all_measures",
    "class_data",
    "comparison_table",
    "confusion_table",
    "gains",
    "ranking",
]


# A browser cannot scroll well through more rows; --format json has all classes.
MOST_CLASSES = 2000
# A screen has no room for more columns.
MOST_CONFUSED = 25


@dataclass(frozen=True)
class Bar:
    """An interval to draw, in percent of the width. Zero is in the middle, and right is better."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True)
class Cell:
    """A measure of a method: its mean, and its difference to the baseline if there is one."""

    mean: str
    change: str = ""
    ends: str = ""
    effect: int = 0


@dataclass(frozen=True)
class Line:
    """A line of a table; `how` names its decision."""

    name: str
    cells: list[Cell]
    how: str = ""


@dataclass(frozen=True)
class Rank:
    """A row of the ranked chart: its value, and the ends of bar and interval in percent of the width."""

    name: str
    value: str
    ends: str
    width: float
    low: float | None
    high: float | None
    change: Cell | None
    is_chosen: bool
    is_baseline: bool


@dataclass(frozen=True)
class Confused:
    """The number of samples of a class, and the percentages predicted as each class."""

    name: str
    number: int
    shares: list[float]


@dataclass(frozen=True)
class Gain:
    """A class that changed, with its interval."""

    name: str
    train_positives: int
    before: str
    after: str
    cell: Cell
    bar: Bar


@dataclass(frozen=True)
class SmallTable:
    """A table of texts in the section "What mattered"; columns of numbers are aligned to the right."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    words: frozenset[int] = frozenset()  # columns that hold words, beside the first


def ranking(comparison: Comparison) -> list[Rank]:
    """All rows, ordered by the main measure, the best first."""
    metric = primary(single_label=comparison.single_label)[0]
    sign = -1 if describe(metric).higher_is_better else 1
    keys = [(key, comparison.row(key[0], metric, key[1])) for key in comparison.row_keys]
    rows = [(key, row) for key, row in keys if row is not None and not math.isnan(row.mean)]
    rows.sort(key=lambda each: sign * each[1].mean)
    ends = [row.mean if math.isnan(row.high) else max(row.mean, row.high) for _, row in rows]
    scale = max(ends, default=1.0) or 1.0
    chosen = None if comparison.chosen is None else (comparison.chosen.method, comparison.chosen.decision)
    ranks = []
    for (method, decision), row in rows:
        has_ends = not math.isnan(row.low)
        difference = comparison.like_for_like(method, metric, decision)
        ranks.append(
            Rank(
                _shown_name(comparison, method, decision),
                points(row.mean, sign=False),
                interval_text(row.low, row.high, sign=False) if has_ends else "",
                round(100 * row.mean / scale, 2),
                round(100 * row.low / scale, 2) if has_ends else None,
                round(100 * row.high / scale, 2) if has_ends else None,
                None if difference is None else _cell(difference, ""),
                (method, decision) == chosen,
                method == comparison.baseline,
            )
        )
    return ranks


def confusion_table(runs: Iterable[Run], comparison: Comparison) -> list[Confused]:
    """The predicted classes, in percent of each class's test samples, over all runs.

    Empty for multi-label data, or if a page has no room for so many classes.
    """
    if not comparison.single_label or len(comparison.classes) > MOST_CONFUSED:
        return []
    outputs = [read_outputs(run) for run in runs]
    counts = torch.stack([class_confusion(each.logits, each.targets) for each in outputs]).sum(
        dim=0
    )  # (C, C)
    shares = 100.0 * counts.double() / counts.sum(dim=1, keepdim=True).clamp(min=1)
    return [
        Confused(name, number, [round(each, 1) for each in shares[index].tolist()])
        for index, (name, number) in enumerate(
            zip(comparison.classes, comparison.test_positives, strict=True)
        )
    ]


def _shown_name(comparison: Comparison, method: str, decision: Decision) -> str:
    return method if comparison.single_label and decision == "default" else f"{method}, {_short(decision)}"


def _short(decision: Decision) -> str:
    return {"default": "default threshold"}.get(decision, decision)


def comparison_table(comparison: Comparison) -> tuple[list[str], list[Line]]:
    """The names of the main measures, and one line per method and decision."""
    names = comparison.headline
    lines = [
        Line(
            method,
            [
                _cell(
                    comparison.like_for_like(method, name, decision),
                    mean_text(comparison.row(method, name, decision)),
                )
                for name in names
            ],
            how="" if comparison.single_label and decision == "default" else _short(decision),
        )
        for method, decision in comparison.row_keys
    ]
    return [describe(name).heading for name in names], lines


def all_measures(comparison: Comparison) -> tuple[list[str], list[Line]]:
    """The names of the methods, and one line per measure, with the shown decision."""
    decision = shown_decision(comparison)
    methods = [method.name for method in comparison.methods]
    lines = [
        Line(
            describe(name).heading,
            [
                _cell(
                    comparison.like_for_like(each, name, decision),
                    mean_text(comparison.row(each, name, decision)),
                )
                for each in methods
            ],
        )
        for name in comparison.metrics
    ]
    return methods, lines


def gains(comparison: Comparison, lead: str, *, number: int = 5) -> tuple[list[Gain], list[Gain]]:
    """The classes that gained most and lost most, on one scale."""
    gained, lost = comparison.gains(lead, number=number)
    scale = max((max(abs(each.low), abs(each.high)) for each in [*gained, *lost]), default=1.0)
    return [_gain(each, scale) for each in gained], [_gain(each, scale) for each in lost]


def class_data(comparison: Comparison, lead: str | None) -> dict[str, Any]:
    """The classes' values in percent, by column, for the page's script.

    If there are too many classes: those that changed most with the shown method, else the most frequent ones.
    """
    groups = class_groups(torch.tensor(comparison.train_positives))
    names = {int(index): name for name in ("head", "tail") for index in groups.get(name, ())}
    moved = {gain.index: abs(gain.difference) for gain in comparison.class_gains if gain.method == lead}
    shown = by_frequency(comparison.train_positives)
    shown = sorted(sorted(shown, key=lambda index: -moved.get(index, 0.0))[:MOST_CLASSES])
    methods = {
        method: {name: _percents(values, shown) for name, values in by_metric.items()}
        for method, by_metric in comparison.class_values.items()
    }
    for method in {gain.method for gain in comparison.class_gains}:
        own = [gain for gain in comparison.class_gains if gain.method == method]
        for name in ("difference", "low", "high"):
            methods[method][name] = _percents([getattr(gain, name) for gain in own], shown)
    return {
        "names": [comparison.classes[index] for index in shown],
        "train": [comparison.train_positives[index] for index in shown],
        "test": [comparison.test_positives[index] for index in shown],
        "groups": [names.get(index, "medium") for index in shown],
        "baseline": comparison.baseline,
        "methods": methods,
    }


def _gain(gain: ClassGain, scale: float) -> Gain:
    effect = int(gain.low > 0) - int(gain.high < 0)
    return Gain(
        gain.name,
        gain.train_positives,
        points(gain.baseline, sign=False),
        points(gain.value, sign=False),
        Cell("", points(gain.difference), interval_text(gain.low, gain.high), effect),
        _bar(gain.low, gain.difference, gain.high, scale=scale),
    )


def _cell(difference: Difference | None, mean: str) -> Cell:
    if difference is None:
        return Cell(mean)
    ends = interval_text(difference.low, difference.high)
    return Cell(mean, points(difference.mean), ends, difference.effect)


def _bar(*ends: float, scale: float) -> Bar:
    return Bar(*(round(50.0 + 48.0 * value / max(scale, 1e-9), 2) for value in ends))


def _percents(values: Sequence[float], shown: Sequence[int]) -> list[float | None]:
    chosen = (values[index] for index in shown)
    return [None if math.isnan(value) else round(100.0 * value, 1) for value in chosen]
