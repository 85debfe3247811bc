"""What all figures share: colours that everybody can tell apart, plain axes, and SVG that fits a page."""

from __future__ import annotations

import functools
import html
import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from tailmask.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "GRID",
    "MUTED",
    "SERIES",
    "TEXT",
    "logarithmic_scale",
    "new_figure",
    "shorten",
    "styled",
    "to_svg",
]

P = ParamSpec("P")

# Okabe and Ito's colours (2008), which people with any kind of colour vision can tell apart. The first two,
# for the baseline and the method, lie farthest apart.
SERIES = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
TEXT, MUTED, GRID = "#1b1f24", "#5b6470", "#d9dde2"
# What these colours become in a page, which has its own for the dark.
_VARIABLES = {TEXT: "currentColor", MUTED: "var(--muted)", GRID: "var(--grid)"} | {
    colour: f"var(--series-{index})" for index, colour in enumerate(SERIES)
}
_SETTINGS = {
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
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}


def styled(function: Callable[P, Figure]) -> Callable[P, Figure]:
    """A function that draws a figure, in this style whatever the user's own settings are."""

    @functools.wraps(function)
    def draw(*args: P.args, **options: P.kwargs) -> Figure:
        with require("matplotlib", extra="cli").rc_context(_SETTINGS):
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


def _plain(axes: Axes) -> None:
    """Axes without a frame, with a faint grid."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_facecolor("none")
    axes.tick_params(which="both", length=0)
    axes.grid(axis="y", color=GRID, linewidth=0.8)


def logarithmic_scale(axes: Axes) -> None:
    """Make the vertical axis logarithmic, with plain numbers along it."""
    ticker = require("matplotlib.ticker", extra="cli")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())


def shorten(name: str, length: int = 20) -> str:
    """A name cut to a length, and on one line.

    >>> shorten("a name that is much too long")
    'a name that is much…'
    """
    flat = " ".join("".join(each if each.isprintable() else " " for each in name).split())
    return flat if len(flat) <= length else f"{flat[: length - 1].rstrip()}…"


def to_svg(figure: Figure, *, label: str, prefix: str) -> str:
    """The figure as an inline SVG element: the same bytes each time, text as text, colours of the page.

    `label` is read to those who cannot see it; `prefix` keeps its ids apart from other figures' in the page.
    """
    matplotlib = require("matplotlib", extra="cli")
    buffer = io.StringIO()
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the reader's fonts show the text, not ours
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<(metadata|defs)>\s*<(rdf:RDF|style).*?</\1>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = _own_ids(svg, prefix)
    svg = re.sub(r"font: (?:(\d+) )?([\d.]+)px [^;\"]*", _font, svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r"(\d\.\d\d)\d+", r"\1", svg)
    opening = re.match(r"<svg[^>]*viewBox=\"([^\"]*)\"[^>]*>", svg)
    assert opening is not None  # noqa: S101
    start = f'<svg viewBox="{opening[1]}" role="img" aria-label="{html.escape(label)}">'
    return start + re.sub(r">\s+<", "><", svg[opening.end() :])


def _own_ids(svg: str, prefix: str) -> str:
    """Ids that something refers to, made unique to the figure; all others are left out."""
    used = set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", svg))

    def rename(match: re.Match[str]) -> str:
        return f' id="{prefix}-{match[1]}"' if match[1] in used else ""

    svg = re.sub(r"\sid=\"([^\"]*)\"", rename, svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    return re.sub(r"xlink:href=\"#", f'href="#{prefix}-', svg)


def _font(match: re.Match[str]) -> str:
    weight = f"font-weight: {match[1]}; " if match[1] else ""
    return f"{weight}font-size: {match[2]}px"
