"""Figures as files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tailmask.errors import require
from tailmask.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["save_svg"]

# Text stays text, and the same picture gives the same bytes.
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "tailmask"}


def save_svg(figure: Figure, target: Path) -> None:
    """Write a figure, whole or not at all, on white, since its text is dark and readers' pages may be too."""
    matplotlib = require("matplotlib", extra="cli")
    with matplotlib.rc_context(_SETTINGS), atomic_path(target) as path:
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None})
