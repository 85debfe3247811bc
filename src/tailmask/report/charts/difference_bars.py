"""Differences with their intervals, and plain bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tailmask.comparison.comparison_result import Comparison, Difference
from tailmask.comparison.measures import describe
from tailmask.comparison.run_outputs import Decision
from tailmask.report.charts.style import GRID, MUTED, SERIES, logarithmic_scale, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["differences", "grouped_bars"]


@styled
def differences(
    comparison: Comparison, *, methods: Sequence[str] | None = None, decision: Decision = "default"
) -> Figure:
    """Paired differences to the baseline with the same decision, one line per main measure and method.

    Filled marks have an interval without zero. If lower is better for a measure, its sign is reversed: right
    is always better.
    """
    others = methods or [method.name for method in comparison.methods[1:]]
    names = [
        name
        for name in comparison.headline
        if any(_moves(comparison.like_for_like(method, name, decision)) for method in others)
    ]
    height = 0.9 + len(names) * (0.16 + 0.17 * len(others))
    figure, grid = new_figure(height=height)
    axes = grid[0, 0]
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.axvline(0.0, color=MUTED, linewidth=1.2)
    offsets = np.linspace(-0.28, 0.28, len(others)) if len(others) > 1 else np.zeros(1)
    for place, method in enumerate(others):
        colour = SERIES[(place + 1) % len(SERIES)]
        for line, name in enumerate(names):
            found = comparison.like_for_like(method, name, decision)
            if found is None:
                continue
            sign = 100.0 if describe(name).higher_is_better else -100.0
            low, high = sorted((sign * found.low, sign * found.high))
            height = line + offsets[place]
            axes.plot([low, high], [height, height], color=colour, linewidth=2.2, solid_capstyle="round")
            face = colour if found.effect else "white"
            label = method if line == 0 else None
            axes.plot(
                sign * found.mean, height, "o", color=colour, markerfacecolor=face, markersize=6, label=label
            )
    axes.set_yticks(range(len(names)), [describe(name).label for name in names])
    axes.tick_params(axis="y", labelcolor="#1b1f24")
    axes.invert_yaxis()
    axes.spines["bottom"].set_visible(False)
    axes.set_xlabel(f"points better than {comparison.baseline} →")
    if len(others) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=min(5, len(others)))
    return figure


def _moves(difference: Difference | None) -> bool:
    """True if the difference or its interval is nonzero; other measures are left out."""
    return difference is not None and any((difference.mean, difference.low, difference.high))


@styled
def grouped_bars(
    groups: Mapping[str, Mapping[str, float]], *, label: str, logarithmic: bool = False
) -> Figure:
    """Bars of several methods side by side, one group per name: `groups[name][method]`.

    On a logarithmic scale bars begin at 1: their length shows how far a ratio is from balance.

    >>> figure = grouped_bars({"ρ": {"data": 90.3, "plm": 12.0}}, label="imbalance")
    >>> [float(patch.get_height()) for patch in figure.axes[0].patches]
    [90.3, 12.0]
    """
    methods = list(dict.fromkeys(method for values in groups.values() for method in values))
    figure, grid = new_figure(width=max(4.5, 0.7 * len(groups) * len(methods) + 2), height=3.4)
    axes = grid[0, 0]
    width = 0.8 / len(methods)
    for index, method in enumerate(methods):
        places = np.arange(len(groups)) + (index - (len(methods) - 1) / 2) * width
        values = [by_method.get(method, np.nan) for by_method in groups.values()]
        axes.bar(places, values, 0.92 * width, color=SERIES[index % len(SERIES)], label=method)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_ylabel(label)
    if logarithmic:
        logarithmic_scale(
            axes, [1.0, *(value for by_method in groups.values() for value in by_method.values())]
        )
        axes.set_ylim(bottom=1.0)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)
    return figure
