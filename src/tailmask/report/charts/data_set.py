"""Figures of a data set: frequencies and co-occurrence of its classes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailmask._util.files import atomic_path
from tailmask._util.messages import printable, require
from tailmask.data.class_statistics import Statistics, co_occurrence
from tailmask.data.dataset import Dataset

__all__ = ["draw_co_occurrence", "draw_data_set", "draw_frequencies"]

# Up to this number of classes, all names are shown; with more, only some.
MOST_NAMES = 100
# A heat map shows at most this many classes, the most frequent ones.
MOST_CELLS = 1000

# Distinct for colour-blind readers; the points are dark enough to be seen on the bars.
_COLOURS = {"train": "#a6cee3", "validation": "#005f56", "test": "#b8390e"}
_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "tailmask", "font.size": 9}


def draw_data_set(dataset: Dataset, statistics: Mapping[str, Statistics], folder: Path) -> list[Path]:
    """Write both figures into a folder as SVG, and return their paths."""
    matplotlib = require("matplotlib", extra="cli")
    paths = []
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")  # the viewer's fonts show the SVG, not ours
        figures = {
            "class-frequencies.svg": draw_frequencies(statistics),
            "co-occurrence.svg": draw_co_occurrence(
                statistics["train"], co_occurrence(dataset.train).numpy()
            ),
        }
        for name, figure in figures.items():
            with atomic_path(folder / name) as path:
                figure.savefig(path, format="svg", metadata={"Date": None}, bbox_inches="tight")
            paths.append(folder / name)
    return paths


def draw_frequencies(statistics: Mapping[str, Statistics]) -> Any:
    """A figure of the positives per class and split, from the most to the least frequent in training."""
    train = statistics["train"]
    order = list(train.order)
    figure, axes = _figure(height=max(2.5, 0.16 * min(len(order), MOST_NAMES) + 1), width=7.0)
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
    axes.set_title(f"{len(order)} classes{rho}", loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    _name_classes(axes.yaxis, train.classes, order)
    return figure


def draw_co_occurrence(train: Statistics, counts: NDArray[np.int64]) -> Any:
    """A heat map: how often one class is present if another is, ordered by frequency."""
    order = [c for c in train.order if train.positives[c]][:MOST_CELLS]
    together = counts[np.ix_(order, order)].astype(float)
    share = together / np.maximum(np.diag(together), 1)[:, None]  # (given, other)
    np.fill_diagonal(share, np.nan)
    side = max(3.5, 0.13 * min(len(order), MOST_NAMES) + 1.5)
    figure, axes = _figure(height=side, width=side + 1)
    axes.set_facecolor("#dddddd")  # the diagonal has no information
    image = axes.imshow(share, cmap="Blues", vmin=0, interpolation="nearest", aspect="equal")
    axes.set_ylabel("among the samples with this class …")
    axes.set_xlabel("… this share also has this class")
    axes.set_title(f"co-occurrence of {len(order)} classes in training", loc="left")
    _name_classes(axes.yaxis, train.classes, order)
    _name_classes(axes.xaxis, train.classes, order, rotation=90)
    figure.colorbar(image, ax=axes, shrink=0.6)
    return figure


def _figure(*, height: float, width: float) -> tuple[Any, Any]:
    """An empty figure and its axes, outside of pyplot and its global state."""
    figure = require("matplotlib.figure", extra="cli").Figure(figsize=(width, height))
    return figure, figure.add_subplot()


def _name_classes(axis: Any, classes: tuple[str, ...], order: list[int], *, rotation: int = 0) -> None:
    """Write names beside the classes: all of them, or every k-th if there are too many to read."""
    step = -(-len(order) // MOST_NAMES)
    ranks = list(range(0, len(order), step))
    names = [printable(classes[order[rank]]) for rank in ranks]
    shortened = [name if len(name) <= 24 else f"{name[:23]}…" for name in names]
    axis.set_ticks(ranks)
    axis.set_ticklabels(shortened, fontsize=7 if len(ranks) > 30 else 9, rotation=rotation, parse_math=False)
    axis.set_tick_params(length=0)
