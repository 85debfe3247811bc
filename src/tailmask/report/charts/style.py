"""The style of all figures: colours that colour-blind readers can tell apart, and plain axes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailmask._util.messages import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "GRID",
    "MUTED",
    "SERIES",
    "SETTINGS",
    "TEXT",
    "legend_below",
    "logarithmic_scale",
    "new_figure",
    "shorten",
    "styled",
]

P = ParamSpec("P")

# Okabe and Ito's colours (2008): people with any kind of colour vision can tell them apart. The first two,
# for the baseline and the method, differ most.
SERIES = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
TEXT, MUTED, GRID = "#1b1f24", "#5b6470", "#d9dde2"
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tailmask",
    "font.family": ["DejaVu Sans"],
    "font.size": 10.0,
    "text.parse_math": False,  # a class may be called $x^2$
    "text.color": TEXT,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,  # ticks are plain numbers, without "+5e1" above the axis
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}


def styled(function: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorate a function that draws a figure: it uses this style and ignores the user's settings."""

    @functools.wraps(function)
    def draw(*args: P.args, **options: P.kwargs) -> Figure:
        with require("matplotlib", extra="cli").rc_context(SETTINGS):
            return function(*args, **options)

    return draw


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 9.0, height: float = 3.2, **options: Any
) -> tuple[Figure, NDArray[Any]]:
    """An empty figure and its axes (rows, columns), outside of pyplot and its global state."""
    module = require("matplotlib.figure", extra="cli")
    figure: Figure = module.Figure(figsize=(width, height), layout="constrained", facecolor="none")
    axes: NDArray[Any] = np.asarray(figure.subplots(rows, columns, squeeze=False, **options))
    for each in axes.flat:
        _plain(each)
    return figure, axes


def legend_below(figure: Figure, axes: Axes) -> None:
    """Add a legend of the lines in `axes` below all panels: inside of a panel it would hide lines."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3)


def _plain(axes: Axes) -> None:
    """Remove the frame of the axes and add a faint grid."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_facecolor("none")
    axes.tick_params(which="both", length=0)
    axes.grid(axis="y", color=GRID, linewidth=0.8)


# A logarithmic axis with at most this number of powers of ten has ticks between them.
MOST_DECADES = 3


def logarithmic_scale(axes: Axes, values: ArrayLike) -> None:
    """Make the vertical axis logarithmic, with plain numbers and ticks for the range of the values."""
    ticker = require("matplotlib.ticker", extra="cli")
    every = np.asarray(values, dtype=float)
    shown = every[every > 0]
    few = shown.size == 0 or shown.max() <= 10.0**MOST_DECADES * shown.min()
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=10))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())


def shorten(name: str, length: int) -> str:
    """The name on one line, cut to a length.

    >>> shorten("a name that is much too long", 20)
    'a name that is much…'
    """
    flat = " ".join("".join(each if each.isprintable() else " " for each in name).split())
    return flat if len(flat) <= length else f"{flat[: length - 1].rstrip()}…"
