"""Curves over the epochs: ratios, divergences and losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailmask._util.messages import require
from tailmask.comparison.chosen_classes import representative_classes
from tailmask.report.charts.style import GRID, MUTED, SERIES, logarithmic_scale, new_figure, shorten, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MOST_LINES", "divergence_trajectories", "loss_curves", "ratio_trajectories"]

# Up to this number of classes, each has its own line; with more, a band covers all classes.
MOST_LINES = 10


@styled
def ratio_trajectories(
    ratios: ArrayLike, *, classes: Sequence[str], train_positives: Sequence[int]
) -> Figure:
    """Target ratio r̄ of each class over the epochs, (T, C), on a logarithmic scale (the paper's figure 2).

    Classes without training positives are left out: their ratio is the smallest number above zero, and a
    scale with this number would flatten all other lines.

    >>> figure = ratio_trajectories([[2.0, 0.1], [1.5, 0.2]], classes=["a", "b"], train_positives=[20, 1])
    >>> [line.get_ydata().tolist() for line in figure.axes[0].lines]
    [[2.0, 1.5], [0.1, 0.2]]
    """
    figure, grid = new_figure(height=4.0)
    axes = grid[0, 0]
    shown = [index for index, positives in enumerate(train_positives) if positives > 0]
    values = np.asarray(ratios, dtype=float)[:, shown]
    logarithmic_scale(axes, values)
    _class_lines(axes, values, [classes[i] for i in shown], [train_positives[i] for i in shown])
    axes.set_ylabel("target ratio r̄, positives to negatives")
    axes.set_xlabel("epoch")
    return figure


@styled
def divergence_trajectories(
    divergences: ArrayLike, *, classes: Sequence[str], train_positives: Sequence[int]
) -> Figure:
    """Divergences D⁻ and D⁺ of each class over the epochs, (T, 2, C); one panel each if it is defined.

    >>> figure = divergence_trajectories([[[1.0], [5.0]]], classes=["a"], train_positives=[20])
    >>> [axes.get_title(loc="left") for axes in figure.axes]
    ['where the class is present, D⁺', 'where it is absent, D⁻']
    """
    values = np.asarray(divergences, dtype=float)  # (T, 2, C)
    titles = {1: "where the class is present, D⁺", 0: "where it is absent, D⁻"}
    tops = {label: np.nanmax(values[:, label]) for label in titles if not np.isnan(values[:, label]).all()}
    figure, grid = new_figure(1, len(tops), height=3.8)
    for axes, (label, top) in zip(grid[0], tops.items(), strict=True):
        axes.set_ylim(0, 1.04 * top)
        _class_lines(axes, values[:, label], classes, train_positives)
        axes.set_title(titles[label])
        axes.set_xlabel("epoch")
    grid[0, 0].set_ylabel("divergence from the truth")
    return figure


@styled
def loss_curves(
    losses: Mapping[str, Sequence[Sequence[float]]],
    validation: Mapping[str, Sequence[Sequence[float]]] | None = None,
    *,
    measure: str = "F1",
) -> Figure:
    """Training loss over the epochs, and a measure from 0 to 1 on validation data in a second panel.

    Each method has the mean and the range over its seeds.

    >>> figure = loss_curves({"bce": [[3.0, 1.0], [2.0, 1.0]]}, {"bce": [[0.2, 0.4], [0.4, 0.4]]})
    >>> [axes.lines[0].get_ydata().round(1).tolist() for axes in figure.axes]
    [[2.5, 1.0], [30.0, 40.0]]
    """
    if validation and not any(np.any(np.asarray(curves)) for curves in validation.values()):
        validation = None  # zero at every epoch: the panel would show nothing
    figure, grid = new_figure(1, 1 + bool(validation), height=3.4, width=11.0 if validation else 9.0)
    axes = grid[0, 0]
    every = np.concatenate([np.ravel(curves) for curves in losses.values()])
    if np.nanmin(every) > 0 and np.nanmax(every) > 20 * np.nanmin(every):
        logarithmic_scale(axes, every)
    _method_lines(axes, losses)
    axes.set_ylabel("training loss")
    if validation:
        percent = {name: 100.0 * np.asarray(curves, dtype=float) for name, curves in validation.items()}
        _method_lines(grid[0, 1], percent)
        grid[0, 1].set_ylabel(f"validation {measure}, %")
    return figure


def _method_lines(axes: Axes, values_of: Mapping[str, Any]) -> None:
    ends = []
    for index, (method, curves) in enumerate(values_of.items()):
        values = np.asarray(curves, dtype=float)  # (S, T)
        epochs = np.arange(1, values.shape[1] + 1)
        colour = SERIES[index % len(SERIES)]
        dashes = "-" if index < len(SERIES) else "--"
        axes.fill_between(
            epochs, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.18, linewidth=0
        )
        axes.plot(epochs, values.mean(axis=0), dashes, color=colour, label=method)
        ends.append((values.mean(axis=0)[-1], shorten(method, 24), colour))
    axes.set_xlabel("epoch")
    _epochs(axes, len(epochs))
    _label_ends(axes, ends)


def _class_lines(
    axes: Axes, values: NDArray[np.float64], classes: Sequence[str], train_positives: Sequence[int]
) -> None:
    epochs = np.arange(1, len(values) + 1)
    if len(classes) > MOST_LINES:
        low, high = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)
        axes.fill_between(epochs, low, high, color=GRID, alpha=0.6, linewidth=0)
    chosen = representative_classes(train_positives, MOST_LINES)
    colours = _head_to_tail(len(chosen))
    ends = []
    for index, colour in zip(chosen, colours, strict=True):
        axes.plot(epochs, values[:, index], color=colour)
        ends.append((values[-1, index], shorten(classes[index], 18), colour))
    _epochs(axes, len(epochs))
    _label_ends(axes, ends)


def _head_to_tail(number: int) -> list[Any]:
    """Colours from the most frequent class to the rarest: red over grey to blue."""
    colours = require("matplotlib.colors", extra="cli")
    scale = colours.LinearSegmentedColormap.from_list("frequency", [SERIES[0], "#8a929c", SERIES[1]])
    return [colours.to_hex(scale(share)) for share in np.linspace(0.0, 1.0, number)]


def _label_ends(axes: Axes, ends: Sequence[tuple[float, str, Any]]) -> None:
    """Write a label right of each line's last point; labels that would overlap are moved apart."""
    height = float(axes.bbox.height) / float(axes.figure.dpi) * 72  # in points, before the layout shrinks it
    room = 11.5 / (0.95 * height)
    axes.autoscale_view()
    to_axes = axes.transData + axes.transAxes.inverted()
    places = [
        (float(to_axes.transform((1.0, value))[1]), text, colour)
        for value, text, colour in ends
        if np.isfinite(value)
    ]
    places.sort(key=lambda each: each[0])
    heights = _spread(np.array([place for place, _, _ in places]), room)
    for height, (place, text, colour) in zip(heights, places, strict=True):
        axes.annotate(
            text,
            (1.0, place),
            xycoords="axes fraction",
            xytext=(1.03, height),
            textcoords="axes fraction",
            color=colour,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.7,
                "shrinkA": 2,
                "shrinkB": 0,
                "relpos": (0.0, 0.5),
            },
        )


def _spread(heights: NDArray[np.float64], room: float) -> NDArray[np.float64]:
    """Sorted heights, moved apart to gaps of at least `room`, close to their places and within 0 and 1."""
    apart = heights.copy()
    for _ in range(200):
        gaps = room - np.diff(apart)
        moves = np.where(gaps > 1e-9, gaps / 2, 0.0)
        if not moves.any():
            break
        apart[1:] += moves
        apart[:-1] -= moves
    for index in range(len(apart)):
        apart[index] = max(apart[index], apart[index - 1] + room if index else 0.0)
    for index in reversed(range(len(apart))):
        apart[index] = min(apart[index], apart[index + 1] - room if index + 1 < len(apart) else 1.0)
    return apart


def _epochs(axes: Axes, number: int) -> None:
    ticker = require("matplotlib.ticker", extra="cli")
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, nbins=8))
    axes.margins(x=0.0 if number > 1 else 0.05)
    axes.spines["bottom"].set_color(MUTED)
