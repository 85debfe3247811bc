"""Result tables as plain data: each cell has the paper's number and the measured one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ResultCell", "ResultRow", "Table", "measured"]


@dataclass(frozen=True)
class ResultCell:
    """The paper's value, and the mean and standard deviation of `n` measured values; None if missing."""

    paper: float | None = None
    mean: float | None = None
    std: float | None = None
    n: int = 0


@dataclass(frozen=True)
class ResultRow:
    """A row of a table: its label, and one cell per column."""

    label: str
    cells: tuple[ResultCell, ...]


@dataclass(frozen=True)
class Table:
    """A table of results: `label` heads the column of the rows' labels, numbers have `digits` decimals."""

    caption: str
    label: str
    columns: tuple[str, ...]
    rows: tuple[ResultRow, ...]
    digits: int = 2


def measured(values: Sequence[float], *, paper: float | None = None) -> ResultCell:
    """The cell of measured values; without values it has only the paper's number.

    >>> measured([80.0, 82.0], paper=80.35)
    ResultCell(paper=80.35, mean=81.0, std=1.4142135623730951, n=2)
    """
    if not values:
        return ResultCell(paper)
    spread = statistics.stdev(values) if len(values) > 1 else None
    return ResultCell(paper, statistics.fmean(values), spread, len(values))
