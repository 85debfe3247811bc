"""Measures by class, ordered by frequency in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tailmask._util.messages import require
from tailmask.comparison.chosen_classes import by_frequency
from tailmask.report.charts.style import GRID, SERIES, new_figure, shorten, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["by_class", "class_curves"]

# All classes have names below the axis up to the first number; names are horizontal up to the second.
MOST_NAMES, MOST_STRAIGHT = 100, 12


@styled
def by_class(
    bars: Mapping[str, Sequence[float]],
    points: Mapping[str, Sequence[float]] | None = None,
    *,
    classes: Sequence[str],
    train_positives: Sequence[int],
    labels: tuple[str, str] = ("plm", "bce"),
    marked: Sequence[int] = (),
    mark_label: str = "difficult",
) -> Figure:
    """Bars for a method and points for the baseline, one panel per measure (the paper's figures 4 and 8).

    Both have values (C,) from 0 to 1 by the measure's name. Classes are ordered from the most to the least
    frequent; the `marked` ones have a triangle and a bold name.

    >>> figure = by_class({"F1": [0.6, 0.3]}, {"F1": [0.5, 0.1]}, classes=["a", "b"], train_positives=[1, 9])
    >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
    ['b', 'a']
    """
    order = by_frequency(train_positives)
    places = [order.index(index) for index in marked]
    height = 1.9 * len(bars) + (1.0 if len(order) <= MOST_NAMES else 0.6)
    figure, grid = new_figure(len(bars), height=height, sharex=True)
    for axes, (name, values) in zip(grid[:, 0], bars.items(), strict=True):
        tops = 100.0 * np.asarray(values, dtype=float)[order]
        _draw_bars(axes, tops, label=labels[0])
        if points is not None:
            others = 100.0 * np.asarray(points[name], dtype=float)[order]
            size = float(np.interp(len(order), [10, 80, 400], [6.0, 4.0, 2.2]))
            marks = {
                "color": SERIES[0],
                "markersize": size,
                "linestyle": "none",
                "clip_on": False,
                "zorder": 3,
            }
            axes.plot(others, "o", label=labels[1], **marks)
            tops = np.fmax(tops, others)
        if places:
            triangles = {"color": SERIES[2], "markersize": 6, "linestyle": "none"}
            axes.plot(places, tops[places] + 7, "v", label=mark_label, **triangles)
        axes.set_title(name)
        axes.set_ylabel("%")
        axes.set_yticks([0, 25, 50, 75, 100])
        axes.set_ylim(0, 112 if places else 104)
    grid[0, 0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.2)
    _name_classes(grid[-1, 0], [classes[i] for i in order], [train_positives[i] for i in order])
    for place in places if len(order) <= MOST_NAMES else ():
        grid[-1, 0].get_xticklabels()[place].set(color=SERIES[2], fontweight="bold")
    return figure


@styled
def class_curves(
    panels: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    classes: Sequence[str],
    train_positives: Sequence[int],
    label: str = "accuracy, %",
) -> Figure:
    """Curves of a measure by class for several methods, one panel per setting (the paper's figure 3).

    `panels[setting][method]` has values (C,). A setting's name is the title of its panel.

    >>> panels = {"ρ = 100": {"bce": [0.9, 0.4], "plm": [0.9, 0.6]}}
    >>> len(class_curves(panels, classes=["a", "b"], train_positives=[9, 1]).axes[0].lines)
    2
    """
    order = by_frequency(train_positives)
    figure, grid = new_figure(1, len(panels), width=max(4.5, 3.4 * len(panels)), height=3.4, sharey=True)
    for axes, (title, by_method) in zip(grid[0], panels.items(), strict=True):
        for index, (method, values) in enumerate(by_method.items()):
            shares = 100.0 * np.asarray(values, dtype=float)[order]
            colour, marker = SERIES[index % len(SERIES)], "osD^vP"[index % 6]
            axes.plot(shares, marker=marker, markersize=4, color=colour, label=method)
        axes.set_title(title)
        _name_classes(axes, [classes[i] for i in order], [train_positives[i] for i in order])
    grid[0, 0].set_ylabel(label)
    grid[0, 0].legend(loc="lower left")
    return figure


def _draw_bars(axes: Axes, heights: np.ndarray, *, label: str) -> None:
    """Draw all bars as one shape: a page with hundreds of classes stays small."""
    paths = require("matplotlib.path", extra="cli")
    patches = require("matplotlib.patches", extra="cli")
    width = 0.76 if len(heights) <= 150 else 0.9
    corners = []
    for place, value in enumerate(np.nan_to_num(heights)):
        left, right = place - width / 2, place + width / 2
        corners.append([(left, 0.0), (left, value), (right, value), (right, 0.0), (left, 0.0)])
    bars = paths.Path.make_compound_path(*(paths.Path(each, closed=True) for each in corners))
    axes.add_patch(patches.PathPatch(bars, facecolor=SERIES[1], edgecolor="none", alpha=0.75, label=label))
    axes.set_xlim(-0.8, len(heights) - 0.2)


def _name_classes(axes: Axes, names: Sequence[str], counts: Sequence[int]) -> None:
    """Write names below the axis if there is room, else ranks and training counts."""
    number = len(names)
    if number <= MOST_NAMES:
        straight = number <= MOST_STRAIGHT and max(map(len, names)) <= 8
        size = float(np.interp(number, [20, 100], [9.0, 5.6]))
        axes.set_xticks(range(number), [shorten(name, 18) for name in names], fontsize=size)
        axes.tick_params(axis="x", rotation=0 if straight else 90)
        return
    places = np.unique(np.linspace(0, number - 1, 9).round().astype(int))
    axes.set_xticks(places, [f"{place + 1}\n({counts[place]:,})" for place in places])
    axes.set_xlabel("class, from the most to the least frequent (training samples)")
    axes.vlines(places, 0, 1, transform=axes.get_xaxis_transform(), color=GRID, linewidth=0.6, zorder=0)
