"""The page's tables as texts and numbers, ready for its template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tailmask.comparison.chosen_classes import by_frequency
from tailmask.comparison.comparison_result import ClassGain, Comparison, Difference, row_name
from tailmask.comparison.measures import describe, primary
from tailmask.comparison.verdict_sentences import points
from tailmask.metrics import class_groups
from tailmask.report.comparison_text import mean_text

__all__ = [
    "Bar",
    "Cell",
    "Gain",
    "Line",
    "Tile",
    "all_measures",
    "class_data",
    "comparison_table",
    "gains",
    "tiles",
]


# More rows than a browser scrolls through with ease are left to --format json.
MOST_CLASSES = 2000


@dataclass(frozen=True)
class Bar:
    """An interval to draw, in percent of the width, with zero in the middle; it is better to the right."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True)
class Cell:
    """A measure of a method: its mean, and its change against the baseline where there is one."""

    mean: str
    change: str = ""
    ends: str = ""
    effect: int = 0


@dataclass(frozen=True)
class Line:
    """A line of a table."""

    name: str
    cells: list[Cell]
    is_variant: bool = False


@dataclass(frozen=True)
class Tile:
    """A leading measure, large."""

    label: str
    before: str
    after: str
    cell: Cell
    bar: Bar


@dataclass(frozen=True)
class Gain:
    """A class that moved, with its interval."""

    name: str
    train_positives: int
    before: str
    after: str
    cell: Cell
    bar: Bar


def tiles(comparison: Comparison, lead: str) -> list[Tile]:
    """The measures that the verdict speaks of, and the share of samples that are all right."""
    names = [*primary(single_label=comparison.single_label), "ap"]
    names.append("error" if comparison.single_label else "exact_match")
    found = [(name, comparison.difference(lead, name)) for name in names]
    shown = [(name, each) for name, each in found if each is not None]
    scale = max((max(abs(each.low), abs(each.high)) for _, each in shown), default=1.0)
    return [
        Tile(
            describe(name).heading,
            mean_text(comparison.row(comparison.baseline, name)).partition(" ")[0],
            mean_text(comparison.row(lead, name)).partition(" ")[0],
            _cell(difference, ""),
            _bar(
                difference.low,
                difference.mean,
                difference.high,
                scale,
                upward=describe(name).higher_is_better,
            ),
        )
        for name, difference in shown
    ]


def comparison_table(comparison: Comparison) -> tuple[list[str], list[Line]]:
    """The leading measures: their names, and a line for each method and way to decide."""
    names = comparison.headline
    lines = [
        Line(
            row_name(method, decision),
            [
                _cell(
                    comparison.like_for_like(method, name, decision),
                    mean_text(comparison.row(method, name, decision)),
                )
                for name in names
            ],
            is_variant=decision != "default",
        )
        for method, decision in comparison.row_keys
    ]
    return [describe(name).heading for name in names], lines


def all_measures(comparison: Comparison) -> tuple[list[str], list[Line]]:
    """Every measure: the methods' names, and a line for each measure."""
    methods = [method.name for method in comparison.methods]
    lines = [
        Line(
            describe(name).heading,
            [
                _cell(comparison.difference(each, name), mean_text(comparison.row(each, name)))
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
    """The classes' values in percent, column by column, as the page's script takes them.

    Of very many classes, those that changed most with the leading method, or else the most frequent ones.
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
    ends = f"{points(gain.low)} to {points(gain.high)}"
    return Gain(
        gain.name,
        gain.train_positives,
        points(gain.baseline, sign=False),
        points(gain.value, sign=False),
        Cell("", points(gain.difference), ends, effect),
        _bar(gain.low, gain.difference, gain.high, scale),
    )


def _cell(difference: Difference | None, mean: str) -> Cell:
    if difference is None:
        return Cell(mean)
    ends = f"{points(difference.low)} to {points(difference.high)}"
    return Cell(mean, points(difference.mean), ends, difference.effect)


def _bar(low: float, mean: float, high: float, scale: float, *, upward: bool = True) -> Bar:
    sign = 1.0 if upward else -1.0
    places = [round(50.0 + 48.0 * sign * value / max(scale, 1e-9), 2) for value in (low, mean, high)]
    return Bar(min(places), places[1], max(places))


def _percents(values: Sequence[float], shown: Sequence[int]) -> list[float | None]:
    chosen = (values[index] for index in shown)
    return [None if math.isnan(value) else round(100.0 * value, 1) for value in chosen]
