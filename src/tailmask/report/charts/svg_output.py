"""Figures as SVG: inline elements of a page, and files."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from tailmask._util.files import atomic_path
from tailmask._util.messages import require
from tailmask.report.charts.style import GRID, MUTED, SERIES, SETTINGS, TEXT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["save_svg", "to_svg"]

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
# The page defines the colours, with a light and a dark theme.
_VARIABLES = {TEXT: "currentColor", MUTED: "var(--muted)", GRID: "var(--grid)", "#ffffff": "var(--card)"} | {
    colour: f"var(--series-{index})" for index, colour in enumerate(SERIES)
}
# Text in files is not drawn as curves, and the same figure gives the same bytes.
_FILE_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "tailmask"}
_MORE_THAN_TWO_DECIMALS = re.compile(r"(\d\.\d\d)\d+")


def to_svg(figure: Figure, *, label: str, prefix: str) -> str:
    """The figure as an inline SVG element: deterministic, with text as text and the page's colours.

    Screen readers read the `label`; the `prefix` makes ids unique in the page.
    """
    root = _draw(figure)
    for part in root.findall(f"{_SVG}metadata") + root.findall(f"{_SVG}defs[{_SVG}style]"):
        root.remove(part)
    references = {
        value.partition("#")[2].rstrip(")")
        for part in root.iter()
        for name, value in part.attrib.items()
        if name == _HREF or value.startswith("url(#")
    }
    for part in root.iter():
        part.tag = part.tag.removeprefix(_SVG)
        part.text, part.tail = (text if text and text.strip() else None for text in (part.text, part.tail))
        part.attrib = {
            "href" if name == _HREF else name: _in_page(name, value, prefix)
            for name, value in part.attrib.items()
            if name != "id" or value in references
        }
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


def _draw(figure: Figure) -> ElementTree.Element:
    buffer = io.StringIO()
    with require("matplotlib", extra="cli").rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the reader's fonts show the text, not ours
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return ElementTree.fromstring(buffer.getvalue())  # noqa: S314 (matplotlib has just written it)


def _in_page(name: str, value: str, prefix: str) -> str:
    """The value of an attribute with the page's colours and fonts, short numbers, and unique ids."""
    if name == "id":
        return f"{prefix}-{value}"
    if name == _HREF or value.startswith("url(#"):
        return value.replace("#", f"#{prefix}-", 1)
    if name == "style":
        value = "; ".join(part for part in value.split("; ") if not part.startswith("font-family:"))
    for colour, variable in _VARIABLES.items():
        value = value.replace(colour, variable)
    return _MORE_THAN_TWO_DECIMALS.sub(r"\1", value)


def save_svg(figure: Figure, path: Path) -> None:
    """Write a figure atomically, on white: its text is dark, and a reader's page may be dark too."""
    matplotlib = require("matplotlib", extra="cli")
    with matplotlib.rc_context(_FILE_SETTINGS), warnings.catch_warnings(), atomic_path(path) as temporary:
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")  # the viewer's fonts show the text, not ours
        figure.savefig(temporary, format="svg", facecolor="white", metadata={"Date": None})
