"""The paper's numbers, read from `paper.toml`."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any

__all__ = ["load_paper", "paper_rows"]


@functools.cache
def load_paper() -> dict[str, Any]:
    """Every number that the paper prints, by table and figure.

    >>> load_paper()["figure2"]["end"]
    {'0': 0.24, '9': 0.047}
    """
    text = (resources.files("tailmask.paper") / "paper.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def paper_rows(table: str) -> dict[str, list[float | None]]:
    """The rows of one of the tables 1 to 6 by method; None if the paper leaves a cell empty.

    >>> paper_rows("table3")["ldam+drw"][:4]
    [None, None, 22.97, None]
    """
    rows = load_paper()[table]["rows"]
    return {method: [None if cell == "-" else cell for cell in cells] for method, cells in rows.items()}
