"""Figures as SVG files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from tailmask._util.files import atomic_path
from tailmask._util.messages import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["save_svg"]

# Text is not drawn as curves, and the same figure gives the same bytes.
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "tailmask"}


def save_svg(figure: Figure, path: Path) -> None:
    """Write a figure atomically, on white: its text is dark, and a reader's page may be dark too."""
    matplotlib = require("matplotlib", extra="cli")
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings(), atomic_path(path) as temporary:
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")  # the viewer's fonts show the SVG, not ours
        figure.savefig(temporary, format="svg", facecolor="white", metadata={"Date": None})
