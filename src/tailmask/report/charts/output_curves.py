"""Curves of chosen classes: precision by recall, and calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tailmask.report.charts.style import GRID, MUTED, SERIES, legend_below, new_figure, shorten, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["calibration_curves", "precision_recall_curves"]


@styled
def precision_recall_curves(
    curves: Mapping[str, ArrayLike],
    *,
    classes: Sequence[str],
    train_positives: Sequence[int],
    points: Mapping[str, ArrayLike] | None = None,
) -> Figure:
    """Precision (K, R) at R even steps of recall: one panel per class (K), one line per method.

    `points` (K, 2) has recall and precision at a method's thresholds.

    >>> figure = precision_recall_curves({"bce": [[1.0, 0.5]]}, classes=["cat"], train_positives=[4])
    >>> figure.axes[0].lines[0].get_ydata().tolist()
    [100.0, 50.0]
    """
    figure, grid = _panels(classes, train_positives)
    for place, (method, values) in enumerate(curves.items()):
        for axes, precision in zip(grid, 100.0 * np.asarray(values, dtype=float), strict=True):
            recall = np.linspace(0, 100, len(precision))
            axes.plot(recall, precision, color=SERIES[place % len(SERIES)], label=method)
        if points is not None and method in points:
            for axes, (recall, precision) in zip(grid, 100.0 * np.asarray(points[method]), strict=True):
                axes.plot(recall, precision, "o", color=SERIES[place % len(SERIES)], clip_on=False, zorder=3)
    for axes in grid:
        axes.set(xlim=(0, 100), ylim=(0, 100), xticks=[0, 50, 100], yticks=[0, 50, 100])
        axes.set_xlabel("recall, %")
    grid[0].set_ylabel("precision, %")
    legend_below(figure, grid[0])
    return figure


@styled
def calibration_curves(
    curves: Mapping[str, Sequence[tuple[ArrayLike, ArrayLike]]],
    *,
    classes: Sequence[str],
    train_positives: Sequence[int],
) -> Figure:
    """Share of present labels by mean output, one pair of arrays per class; the diagonal is calibrated.

    Axes have a square-root scale: otherwise a rare class would be a dot, because its outputs are small.

    >>> figure = calibration_curves({"bce": [([0.1, 0.6], [0.2, 0.5])]}, classes=["cat"], train_positives=[4])
    >>> figure.axes[0].lines[1].get_ydata().tolist()
    [20.0, 50.0]
    """
    figure, grid = _panels(classes, train_positives)
    for axes in grid:
        axes.plot([0, 100], [0, 100], color=MUTED, linewidth=1.0, linestyle=":")
    for place, (method, values) in enumerate(curves.items()):
        for axes, (outputs, shares) in zip(grid, values, strict=True):
            colour = SERIES[place % len(SERIES)]
            axes.plot(
                100 * np.asarray(outputs), 100 * np.asarray(shares), "o-", color=colour, ms=4, label=method
            )
    for axes in grid:
        axes.set_xscale("function", functions=(np.sqrt, np.square))
        axes.set_yscale("function", functions=(np.sqrt, np.square))
        axes.set(xlim=(0, 100), ylim=(0, 100), xticks=[1, 10, 25, 50, 100], yticks=[1, 10, 25, 50, 100])
        axes.set_xlabel("mean output, %")
    grid[0].set_ylabel("present, %")
    legend_below(figure, grid[0])
    return figure


def _panels(classes: Sequence[str], train_positives: Sequence[int]) -> tuple[Figure, list[Any]]:
    number = len(classes)
    figure, grid = new_figure(1, number, width=max(4.0, 2.3 * number), height=3.1)
    for axes, name, count in zip(grid[0], classes, train_positives, strict=True):
        axes.set_title(f"{shorten(name, 17)}\n{count:,} training samples", fontsize=9.0)
        axes.grid(axis="x", color=GRID, linewidth=0.8)
    return figure, list(grid[0])
