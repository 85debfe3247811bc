"""Figures of a data set: frequencies and co-occurrence of its classes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailmask.data.class_statistics import Statistics, co_occurrence
from tailmask.data.dataset import Dataset
from tailmask.report.charts.style import GRID, new_figure, shorten, styled
from tailmask.report.charts.svg_output import save_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_co_occurrence", "draw_data_set", "draw_frequencies"]

# Up to this number of classes, all names are shown; with more, only some.
MOST_NAMES = 100
# A heat map shows at most this many classes, the most frequent ones.
MOST_CELLS = 1000

# Distinct for colour-blind readers; the points are dark enough to be seen on the bars.
_COLOURS = {"train": "#a6cee3", "validation": "#005f56", "test": "#b8390e"}


def draw_data_set(dataset: Dataset, statistics: Mapping[str, Statistics], folder: Path) -> list[Path]:
    """Write both figures into a folder as SVG, and return their paths."""
    figures = {
        folder / "class-frequencies.svg": draw_frequencies(statistics),
        folder / "co-occurrence.svg": draw_co_occurrence(
            statistics["train"], co_occurrence(dataset.train).numpy()
        ),
    }
    for path, figure in figures.items():
        save_svg(figure, path)
    return list(figures)


@styled
def draw_frequencies(statistics: Mapping[str, Statistics]) -> Figure:
    """A figure of the positives per class and split, from the most to the least frequent in training."""
    train = statistics["train"]
    order = list(train.order)
    figure, grid = new_figure(height=max(2.5, 0.16 * min(len(order), MOST_NAMES) + 1), width=8.0)
    axes = grid[0, 0]
    ranks = np.arange(len(order))
    few = len(order) <= MOST_NAMES
    for name, split in statistics.items():
        counts = np.array(split.positives, dtype=float)[order]
        shown = np.where(counts > 0, counts, np.nan)  # a logarithm has no zero
        if name == "train":
            axes.barh(ranks, shown, height=0.8 if few else 1.0, color=_COLOURS[name], label=name)
        else:
            axes.plot(shown, ranks, ".", markersize=6 if few else 3, color=_COLOURS[name], label=name)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.margins(y=0)
    axes.set_xlabel("positive samples")
    rho = "" if train.rho is None else f", ρ = {train.rho:.4g} in training"
    axes.set_title(f"{len(order)} classes{rho}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    _name_classes(axes.yaxis, train.classes, order)
    return figure


@styled
def draw_co_occurrence(train: Statistics, counts: NDArray[np.int64]) -> Figure:
    """A heat map: how often one class is present if another is, ordered by frequency."""
    order = [c for c in train.order if train.positives[c]][:MOST_CELLS]
    together = counts[np.ix_(order, order)].astype(float)
    share = together / np.maximum(np.diag(together), 1)[:, None]  # (given, other)
    np.fill_diagonal(share, np.nan)
    side = max(3.5, 0.13 * min(len(order), MOST_NAMES) + 1.5)
    figure, grid = new_figure(height=side, width=side + 1)
    axes = grid[0, 0]
    axes.grid(visible=False)
    axes.set_facecolor("#dddddd")  # the diagonal has no information
    image = axes.imshow(share, cmap="Blues", vmin=0, interpolation="nearest", aspect="equal")
    axes.set_ylabel("among the samples with this class …")
    axes.set_xlabel("… this share also has this class")
    axes.set_title(f"co-occurrence of {len(order)} classes in training")
    _name_classes(axes.yaxis, train.classes, order)
    _name_classes(axes.xaxis, train.classes, order, rotation=90)
    figure.colorbar(image, ax=axes, shrink=0.6)
    return figure


def _name_classes(axis: Any, classes: tuple[str, ...], order: list[int], *, rotation: int = 0) -> None:
    """Write names beside the classes: all of them, or every k-th if there are too many to read."""
    step = -(-len(order) // MOST_NAMES)
    ranks = list(range(0, len(order), step))
    names = [shorten(classes[order[rank]], 24) for rank in ranks]
    axis.set_ticks(ranks, names, fontsize=7 if len(ranks) > 30 else 9, rotation=rotation)
