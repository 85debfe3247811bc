"""Distributions of output probabilities, for samples with and without a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from tailmask.functional import histogram
from tailmask.report.charts.style import SERIES, legend_below, new_figure, shorten, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["output_distributions", "toy_example"]

_ROWS = {1: "present", 0: "absent"}


@styled
def output_distributions(
    counts: Mapping[str, ArrayLike],
    *,
    classes: Sequence[str],
    train_positives: Sequence[int],
    chosen: Sequence[int],
    truth: bool = False,
) -> Figure:
    """Outputs of chosen classes: samples with the class above, without it below (figures 1 and 7).

    `counts` has one histogram (2, C, bins) per method, from `tailmask.functional.histogram`. With `truth` the
    first column shows the ideal outputs. Shares have a square-root scale: otherwise the few wrong outputs
    among many negatives would be invisible.

    >>> counts = {"bce": [[[9, 1]], [[2, 2]]]}
    >>> figure = output_distributions(counts, classes=["cat"], train_positives=[4], chosen=[0])
    >>> figure.axes[0].get_title(loc="left").splitlines()
    ['cat', '4 training samples']
    """
    shares = {method: _shares(np.asarray(values, dtype=float)) for method, values in counts.items()}
    columns = len(chosen) + truth
    figure, grid = new_figure(2, columns, width=max(4.0, 2.3 * columns), height=4.2, sharex=True, sharey=True)
    if truth:
        num_bins = next(iter(shares.values())).shape[-1]
        ideal = np.eye(num_bins)[[0, -1]]
        grid[0, 0].set_title("truth")
        for row, label in enumerate(_ROWS):
            _steps(grid[row, 0], ideal[label], "#8a929c", None)
    for column, index in enumerate(chosen, start=int(truth)):
        title = f"{shorten(classes[index], 17)}\n{train_positives[index]:,} training samples"
        grid[0, column].set_title(title, fontsize=9.0)
        for row, label in enumerate(_ROWS):
            for place, (method, values) in enumerate(shares.items()):
                _steps(grid[row, column], values[label, index], SERIES[place % len(SERIES)], method)
    for row, name in enumerate(_ROWS.values()):
        grid[row, 0].set_ylabel(f"share of outputs\nwhere {name}")
    for axes in grid.flat:
        axes.set_yscale("function", functions=(np.sqrt, np.square))
        axes.set_ylim(0, 1)
        axes.set_yticks([0.01, 0.1, 0.25, 0.5, 1.0], ["1 %", "10 %", "25 %", "50 %", "100 %"])
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    for axes in grid[-1]:
        axes.set_xlabel("output ŷ")
    legend_below(figure, grid[0, -1])
    return figure


@styled
def toy_example(*, normalized: bool = False) -> Figure:
    """The appendix's toy example: histograms (figure 5), or distributions (figure 6) if `normalized`.

    >>> [int(patch.get_height()) for patch in toy_example().axes[3].patches]  # predicted, where absent
    [2, 2, 0, 1]
    """
    targets = torch.tensor([[1]] * 5 + [[0]] * 5)
    predicted = torch.tensor([[0.2], [0.6], [0.95], [0.99], [0.45], [0.1], [0.15], [0.8], [0.4], [0.3]])
    columns = {"true": targets.float(), "predicted": predicted}
    figure, grid = new_figure(2, 2, width=6.4, height=4.4, sharex=True, sharey=True)
    for column, (name, outputs) in enumerate(columns.items()):
        counts = histogram(outputs, targets, num_bins=4)[:, 0].numpy().astype(float)  # (2, 4)
        values = _shares(counts) if normalized else counts
        for row, label in enumerate(_ROWS):
            axes = grid[row, column]
            axes.bar([0.125, 0.375, 0.625, 0.875], values[label], width=0.23, color=SERIES[label])
            axes.set_title(f"{name}, where {_ROWS[label]}")
            axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    for axes in grid[:, 0]:
        axes.set_ylabel("share" if normalized else "outputs")
    return figure


def _shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1.0)
    return shares


def _steps(axes: Axes, shares: NDArray[np.float64], colour: str, label: str | None) -> None:
    edges = np.linspace(0.0, 1.0, len(shares) + 1)
    axes.stairs(shares, edges, color=colour, linewidth=1.8, label=label)
    axes.stairs(shares, edges, color=colour, alpha=0.15, fill=True)
