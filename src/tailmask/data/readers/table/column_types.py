"""Columns of new files as the types that they had in training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailmask._util.messages import UserError, require
from tailmask.data.readers.table.numerals import as_numbers, bare_cells, number_hint

if TYPE_CHECKING:
    import polars as pl

__all__ = ["as_text", "is_number", "with_types"]

_BOOLEANS = {"true": "1", "false": "0"}


def is_number(kind: Any) -> bool:
    """True if a column of a polars type becomes one number, as numbers and booleans do.

    >>> polars = require("polars", extra="tables")
    >>> is_number(polars.Boolean), is_number(polars.String)
    (True, False)
    """
    return bool(kind.is_numeric() or kind == require("polars", extra="tables").Boolean)


def with_types(frame: pl.DataFrame, types: dict[str, Any], where: object, *, start: int = 0) -> pl.DataFrame:
    """The table with its columns in the given types: numbers and booleans as numbers, all others as text.

    `start` is the number of rows before this piece of the table, for errors.

    >>> polars = require("polars", extra="tables")
    >>> with_types(polars.DataFrame({"x": ["+5", "NA"]}), {"x": polars.Float64}, "a.csv").rows()
    [(5.0,), (None,)]
    """
    return frame.with_columns(
        _numbers(frame[name], kind, where, start=start) if is_number(kind) else as_text(frame[name], where)
        for name, kind in types.items()
        if name in frame.columns
    )


def as_text(series: pl.Series, where: object) -> pl.Series:
    """A column as text; lists, durations and bytes are refused.

    A whole number has no decimals, because whole numbers become floats if a cell beside them is empty. NaN is
    an empty cell.

    >>> polars = require("polars", extra="tables")
    >>> as_text(polars.Series("x", [1.5, 2.0, None, float("nan")]), "a.parquet").to_list()
    ['1.5', '2', None, None]
    """
    polars = require("polars", extra="tables")
    if series.dtype.is_nested() or series.dtype in (polars.Duration, polars.Binary, polars.Object):
        raise UserError(
            f"{where}: the column {series.name!r} holds values of the type "
            f"{series.dtype.base_type().__name__}, not text: write them as text, or train without that column"
        )
    if not series.dtype.is_float():
        return series.cast(polars.String)
    whole, known = series.cast(polars.Int64, strict=False), series.fill_nan(None)
    is_whole = (whole == known).fill_null(value=False)
    return whole.cast(polars.String).zip_with(is_whole, known.cast(polars.String))


def _numbers(series: pl.Series, kind: Any, where: object, *, start: int = 0) -> pl.Series:
    """A column as numbers; `kind` is its type in training. Marks of empty cells are null."""
    polars = require("polars", extra="tables")
    if is_number(series.dtype) or series.dtype == polars.Null:
        return series.cast(polars.Float64)
    meant = "true and false" if kind == polars.Boolean else "numbers"
    if series.dtype not in (polars.String, polars.Categorical, polars.Enum):
        raise UserError(
            f"{where}: the column {series.name!r} holds values of the type "
            f"{series.dtype.base_type().__name__}, but held {meant} in training: write {meant}"
        )
    text = series.cast(polars.String)
    bare = bare_cells(text)
    numbers = as_numbers(bare.replace(_BOOLEANS) if kind == polars.Boolean else bare)
    wrong = (bare.is_not_null() & numbers.is_null()).arg_true()
    if len(wrong):
        row = int(wrong[0])
        raise UserError(
            f"{where} has {text[row][:40]!r} in row {start + row + 1} of the column {series.name!r}, "
            f"which held {meant} in training: {number_hint(text[row])}"
        )
    return numbers
