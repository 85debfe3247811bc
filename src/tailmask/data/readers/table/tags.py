"""All labels of a row in one cell: lists, lists written as text, and texts with separators."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailmask._util.messages import UserError, require
from tailmask.data.options import DataOptions
from tailmask.data.readers.table.csv_text import QUOTED, table_suffix
from tailmask.data.readers.table.numerals import bare_cells, is_mark

if TYPE_CHECKING:
    import polars as pl

__all__ = ["read_tags", "tag_notes"]

# NumPy prints lists without commas, and Python would join two such texts into one.
_NO_COMMA = re.compile(r"""['"]\s+['"]""")

# The values, in lower case, of a column for only one label, which a row has or not.
_YES_AND_NO = ({"0", "1"}, {"0.0", "1.0"}, {"false", "true"}, {"no", "yes"}, {"n", "y"})

_NO_LIST = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError)


def read_tags(series: pl.Series, separator: str, path: Path) -> Sequence[Sequence[str] | None]:
    """The tags of each row; None for an empty cell, whose labels are unknown.

    >>> cells = require("polars", extra="tables").Series("tags", ["['a', 'b']", None, "[]"])
    >>> read_tags(cells, ",", Path("a.csv"))
    [['a', 'b'], None, []]
    """
    polars = require("polars", extra="tables")
    kind: Any = series.dtype
    is_list = kind.base_type() in (polars.List, polars.Array)
    held = kind.inner if is_list else kind
    if held.is_nested() or held == polars.Binary:
        raise UserError(
            f"{series.name!r} in {path} holds values of the type {held.base_type().__name__}, not labels: "
            "write a list of names, or one column of 0 and 1 per label, named with --labels"
        )
    if is_list:
        tags: list[list[str | None] | None] = series.cast(polars.List(polars.String)).to_list()
        return [None if row is None else _stripped(tag for tag in row if tag is not None) for row in tags]
    text = series.cast(polars.String)
    if table_suffix(path) == ".tsv":
        _refuse_quotes(text, path)
    if 2 * int(text.str.contains(r"^\s*\[(?s:.*)\]\s*$").sum()) > bare_cells(text).count():
        return _lists(text, path)
    if not text.str.contains(separator, literal=True).any():
        for other in (",", ";", "|"):
            number = text.str.contains(other, literal=True).sum()
            if number > len(text) // 10:
                raise UserError(
                    f"no cell of {series.name!r} in {path} has {separator!r} in it, {number} have {other!r}: "
                    f"if it separates the labels, add --separator '{other}'"
                )
    return [None if row is None else _stripped(row) for row in text.str.split(separator).to_list()]


def _refuse_quotes(text: pl.Series, path: Path) -> None:
    quoted = text.filter(text.str.contains(rf"^\s*{QUOTED}\s*$"))
    if len(quoted):
        raise UserError(
            f"cells of {text.name!r} in {path} are in quotes, such as {quoted[0][:40]!r}, and in a .tsv file "
            "quotes belong to the cell: save it as .csv, or without quotes"
        )


def tag_notes(tags: Sequence[Sequence[str] | None], column: str, options: DataOptions) -> Iterator[str]:
    """Notes on rows without tags, and on tags that look like the mark of an empty cell."""
    empty = sum(row is None for row in tags)
    if empty and options.empty_tags == "none":
        yield f"{empty} rows have nothing in {column!r}: they have none of the labels"
    elif empty:
        yield (
            f"{empty} rows have nothing in {column!r}, so their labels are unknown: if they have no labels, "
            f"add --empty-tags none, or write only {options.separator!r} in these cells"
        )
    if options.classes is None:
        rows = [row for row in tags if row]
        words = {tag for row in rows for tag in row}
        if all(len(row) == 1 for row in rows) and {word.lower() for word in words} in _YES_AND_NO:
            yield (
                f"{column!r} holds {' and '.join(map(repr, sorted(words)))}, which are taken as two classes: "
                f"if they mean that a row has the label {column!r} or not, use --labels {column!r}, not "
                "--label-column"
            )
        marks = Counter(tag for row in tags for tag in set(row or ()) if is_mark(tag))
        for mark, number in sorted(marks.items()):
            yield (
                f"{mark!r} in {column!r} is taken as a label of {number} rows: if it means unknown, leave "
                "such cells empty"
            )


def _lists(text: pl.Series, path: Path) -> list[list[str] | None]:
    rows: list[list[str] | None] = []
    with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # a backslash that escapes nothing
        for number, cell in enumerate(text, 1):
            try:
                rows.append(None if cell is None or is_mark(cell) else _stripped(_parsed(cell.strip())))
            except _NO_LIST as error:
                raise UserError(
                    f"{path}, row {number} of {text.name!r}: {cell[:40]!r} is not a list, as most cells are: "
                    """write ["a", "b"] as in JSON, or ['a', 'b'] as in Python"""
                ) from error
    return rows


def _parsed(cell: str) -> list[str]:
    try:
        tags: Any = json.loads(cell)
    except ValueError:
        if _NO_COMMA.search(cell):
            raise
        tags = ast.literal_eval(cell)
    if not isinstance(tags, list) or any(isinstance(tag, list | tuple | dict | set) for tag in tags):
        raise TypeError("a list of labels holds texts or numbers")
    return [str(tag) for tag in tags if tag is not None]


def _stripped(tags: Iterable[str]) -> list[str]:
    return [tag.strip() for tag in tags if tag.strip()]
