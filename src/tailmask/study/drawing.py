"""The pictures that the paper's figures are made of: small bars, bars with points by class, and lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailmask.errors import require
from tailmask.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Bars", "ClassPanel", "Line", "draw_bars", "draw_classes", "draw_lines", "save_figure"]

# Okabe and Ito's colours, which colour-blind readers can tell apart.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#7F7F7F"
COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", GREY)
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "tailmask", "font.size": 9}


@dataclass(frozen=True)
class Bars:
    """A small histogram of outputs between 0 and 1."""

    title: str
    values: Sequence[float]


@dataclass(frozen=True)
class ClassPanel:
    """Scores by class: points for the baseline, bars for PLM; `marked` are the indices of classes to mark."""

    title: str
    classes: Sequence[str]
    points: Sequence[float]
    bars: Sequence[float]
    marked: Sequence[int] = ()


@dataclass(frozen=True)
class Line:
    """A course over epochs."""

    label: str
    values: Sequence[float]


def draw_bars(rows: Sequence[Sequence[Bars]], *, ylabel: str) -> Figure:
    """Rows of histograms, all on one scale."""
    figure = _figure(2.0 * max(map(len, rows)) + 0.6, 1.6 * len(rows) + 0.4)
    highest = max(value for row in rows for bars in row for value in bars.values)
    axes = figure.subplots(len(rows), max(map(len, rows)), squeeze=False, sharey=True, sharex=True)
    for line, row in zip(axes, rows, strict=True):
        line[0].set_ylabel(ylabel)
        for axis, bars in zip(line, row, strict=False):
            width = 1 / len(bars.values)
            centres = [(number + 0.5) * width for number in range(len(bars.values))]
            axis.bar(centres, bars.values, width=0.9 * width, color=BLUE)
            axis.set(title=bars.title, xlim=(0, 1), ylim=(0, 1.05 * highest))
            axis.title.set_fontsize(8)
        for axis in line[len(row) :]:
            axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("output")
    return figure


def draw_classes(panels: Sequence[ClassPanel], *, ylabel: str, names: tuple[str, str]) -> Figure:
    """Panels of scores by class, one below the other where there are many classes, else side by side."""
    number = max(len(panel.classes) for panel in panels)
    columns = 1 if number > 20 else len(panels)
    rows = -(-len(panels) // columns)
    width = max(3.2, 0.16 * number) if columns == 1 else 3.2
    figure = _figure(width * columns + 0.6, 2.9 * rows + 0.3)
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True).flatten()
    for axis, panel in zip(axes, panels, strict=True):
        places = range(len(panel.classes))
        colours = [ORANGE if place in panel.marked else BLUE for place in places]
        axis.bar(places, panel.bars, color=colours, width=0.7, label=names[1])
        axis.plot(places, panel.points, "o", color="black", markersize=3.5, label=names[0])
        axis.set(title=panel.title, ylabel=ylabel, ylim=(0, 100), xlim=(-0.7, len(panel.classes) - 0.3))
        axis.set_xticks(places, panel.classes, rotation=90, fontsize=7)
    axes[0].legend(loc="upper right", fontsize=7)
    return figure


def draw_lines(lines: Sequence[Line], *, ylabel: str) -> Figure:
    """Courses over epochs, on a logarithmic scale, each named at its end."""
    figure = _figure(5.6, 3.6)
    axis = figure.subplots()
    for number, line in enumerate(lines):
        epochs = range(1, len(line.values) + 1)
        colour = COLOURS[number % len(COLOURS)]
        axis.plot(epochs, line.values, color=colour)
        end = (len(line.values), line.values[-1])
        axis.annotate(line.label, end, xytext=(4, 0), textcoords="offset points", color=colour, va="center")
    axis.set(xlabel="epoch", ylabel=ylabel, yscale="log")
    axis.margins(x=0.02)
    return figure


def save_figure(figure: Figure, target: Path) -> None:
    """Write an SVG file, the same bytes for the same picture."""
    matplotlib: Any = require("matplotlib", extra="cli")
    with matplotlib.rc_context(STYLE), atomic_path(target) as path:
        figure.savefig(path, format="svg", metadata={"Date": None})


def _figure(width: float, height: float) -> Figure:
    matplotlib: Any = require("matplotlib", extra="cli")
    require("matplotlib.figure", extra="cli")
    with matplotlib.rc_context(STYLE):
        figure: Figure = matplotlib.figure.Figure(figsize=(width, height), layout="constrained")
    return figure
