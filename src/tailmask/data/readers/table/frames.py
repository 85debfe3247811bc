"""Tables in CSV, TSV, Parquet, Excel and JSON files, read by polars, whole or piece by piece."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tailmask._util.messages import UserError, listing, nearest, require
from tailmask.data.readers.table.column_types import with_types
from tailmask.data.readers.table.csv_text import (
    NOT_UTF8,
    SEPARATORS,
    is_packed,
    open_bytes,
    open_text_table,
    table_suffix,
)
from tailmask.data.readers.table.numerals import as_numbers, bare_cells

if TYPE_CHECKING:
    import polars as pl

__all__ = ["TABLES", "frame_pieces", "is_table", "matching_columns", "read_frame", "with_dates_as_text"]

JSON = (".json", ".jsonl", ".ndjson")
TABLES = (*SEPARATORS, ".parquet", ".xlsx", *JSON)

# A column that marks rows with only empty cells. No other column has this name, because names are stripped.
_EMPTY = "\n"


# A number with a decimal comma, as programs write it in files with semicolons or tabs between cells.
_DECIMAL_COMMA = r"^(\s*[-+]?\d+),(\d+\s*)$"

# 1,234 may also be a thousand: one of these cells shows that the commas in its column are decimal commas.
_NO_THOUSANDS = r"^\s*[-+]?(\d+,(\d{1,2}|\d{4,})|0\d*,\d+|\d{4,},\d+)\s*$"


def is_table(path: Path) -> bool:
    """True if a file is a table, by its name; a .json file is one if it holds a list of records.

    >>> is_table(Path("a.csv.gz")), is_table(Path("a.npz"))
    (True, False)
    """
    if is_packed(path):
        return table_suffix(path) in (*SEPARATORS, *JSON)
    if table_suffix(path) == ".json" and path.is_file():
        with path.open("rb") as file:
            return file.read(1000).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    return table_suffix(path) in TABLES


def read_frame(
    path: Path, *, header: bool = True, types: Mapping[str, Any] | None = None, text: str | None = None
) -> pl.DataFrame:
    """A whole table, with dates and times as text, as in a CSV file.

    `types` are the types of some columns in the training file; the columns must have them here, too, and
    booleans become numbers. Columns that match the pattern `text` stay text even if they look like numbers.
    """
    with _sentence(path, header=header):
        whole = _with_points(
            _scan(path, header=header, types=types, text=text).collect(), path, header=header
        )
        (frame,) = _without_blank_lines([whole], path, header=header)
        frame = with_types(frame, dict(types or {}), path)
        frame = with_dates_as_text(frame)
    if frame.height == 0:
        raise UserError(f"{path} has no rows: add at least one")
    return frame


def with_dates_as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with its dates and times as text, as in a CSV file."""
    polars = require("polars", extra="tables")
    dates = polars.col(polars.Date, polars.Datetime, polars.Time)
    return frame.with_columns(dates.cast(polars.String))


def frame_pieces(
    path: Path,
    batch_size: int,
    *,
    columns: Sequence[str],
    types: Mapping[str, Any],
    header: bool = True,
    wanted: str = "the model was trained on",
) -> Iterator[pl.DataFrame]:
    """Some columns of a table, `batch_size` rows at a time; errors say with `wanted` what needs them."""
    polars = require("polars", extra="tables")
    if not is_table(path):
        raise UserError(f"{path} must be a table ({', '.join(TABLES)}), as the model was trained on one")
    with _sentence(path, header=header):
        scan = _scan(path, header=header, types=types, infer=False)
        there = scan.collect_schema().names()
        absent = [name for name in columns if name not in there]
        if absent:
            others = [name for name in there if name not in (*columns, _EMPTY)]
            hint = nearest(absent[0], others) if others else "add them"
            raise UserError(f"{path} lacks the columns {listing(absent)}, which {wanted}: {hint}")
        taken = scan.select(*columns, *(name for name in there if name == _EMPTY))
        rest, start = None, 0
        for raw in _without_blank_lines(taken.collect_batches(chunk_size=batch_size), path, header=header):
            chunk, start = with_types(raw, dict(types), path, start=start), start + raw.height
            rest = chunk if rest is None else polars.concat([rest, chunk])
            while rest.height >= batch_size:
                yield rest.head(batch_size)
                rest = rest.slice(batch_size)
        if rest is not None and rest.height:
            yield rest


def matching_columns(
    patterns: str | None, columns: Sequence[str], where: object, *, required: bool = True
) -> list[str]:
    """The columns that match one of the names or patterns, separated by commas; None matches none.

    >>> matching_columns("tag_*,age", ["age", "tag_a", "tag_b", "name"], "the file")
    ['age', 'tag_a', 'tag_b']
    """
    matched: set[str] = set()
    for pattern in () if patterns is None else (part.strip() for part in patterns.split(",")):
        found = {name for name in columns if pattern == name or fnmatchcase(name, pattern)}
        if required and not found:
            raise UserError(f"{where} has no column {pattern!r}: {nearest(pattern, columns)}")
        matched |= found
    return [name for name in columns if name in matched]


def _scan(
    path: Path,
    *,
    header: bool,
    types: Mapping[str, Any] | None,
    text: str | None = None,
    infer: bool = True,
) -> pl.LazyFrame:
    """A polars scan of a table; without `infer`, columns without a given type are text.

    In text files, columns given as numbers stay text here: `with_types` knows the marks of empty cells.
    """
    polars = require("polars", extra="tables")
    suffix = table_suffix(path)
    scan: pl.LazyFrame
    if suffix not in SEPARATORS:
        if suffix == ".parquet":
            scan = polars.scan_parquet(path, glob=False)
        elif suffix == ".xlsx":
            excel = require("fastexcel", extra="excel")
            try:
                scan = polars.read_excel(path, infer_schema_length=None).lazy()
            except excel.FastExcelError as error:
                raise ValueError(str(error)) from error
        else:
            source = io.BytesIO(open_bytes(path).read()) if is_packed(path) else path
            if suffix == ".json":
                scan = polars.read_json(source, infer_schema_length=None).lazy()
            else:
                scan = polars.scan_ndjson(source, infer_schema_length=None)
        return scan
    table = open_text_table(path, header=header)
    texts = [*(types or {}), *matching_columns(text, table.names, path, required=False)]
    scan = polars.scan_csv(
        path,
        has_header=header,
        new_columns=table.names,
        separator=table.separator,
        quote_char=table.quote,
        infer_schema=infer,
        infer_schema_length=None if infer else 0,
        schema_overrides=dict.fromkeys(texts, polars.String),
        glob=False,
    )
    if table.separator != ",":
        numbers = [name for name, kind in (types or {}).items() if kind.is_numeric() and name in table.names]
        if table.separator == "\t" and numbers:
            has_decimals = scan.select(polars.col(numbers).str.contains(_NO_THOUSANDS).any()).collect()
            numbers = [name for name in numbers if has_decimals[name][0]]
        scan = scan.with_columns(polars.col(numbers).str.replace(_DECIMAL_COMMA, "$1.$2"))
    return scan.with_columns(polars.all_horizontal(polars.all().is_null()).alias(_EMPTY))


def _with_points(frame: pl.DataFrame, path: Path, *, header: bool) -> pl.DataFrame:
    """The table with 1.5 for 1,5 in columns of numbers, if semicolons or tabs separate its cells."""
    polars = require("polars", extra="tables")
    if table_suffix(path) not in SEPARATORS:
        return frame
    separator = open_text_table(path, header=header).separator
    if separator == ",":
        return frame
    changed = []
    for series in frame.select(polars.col(polars.String)):
        if separator == "\t" and not series.str.contains(_NO_THOUSANDS).any():
            continue
        points = series.str.replace(_DECIMAL_COMMA, "$1.$2")
        bare = bare_cells(points)
        if not points.equals(series) and as_numbers(bare).count() == bare.count():
            changed.append(points)
    return frame.with_columns(changed)


def _without_blank_lines(
    chunks: Iterable[pl.DataFrame], path: Path, *, header: bool
) -> Iterator[pl.DataFrame]:
    """The rows of a table without blank lines; to polars, a blank line is a row of empty cells like `,,`."""
    blank, start = None, 0
    for chunk in chunks:
        if _EMPTY not in chunk.columns:
            yield chunk
            continue
        kept = ~chunk[_EMPTY].to_numpy()
        if not kept.all():
            blank = open_text_table(path, header=header).blank_rows() if blank is None else blank
            first, end = np.searchsorted(blank, (start, start + chunk.height))
            written = np.ones_like(kept)
            written[blank[first:end] - start] = False
            kept |= written
        start += chunk.height
        yield chunk.drop(_EMPTY).filter(kept)


@contextmanager
def _sentence(path: Path, *, header: bool) -> Iterator[None]:
    exceptions = require("polars", extra="tables").exceptions
    try:
        yield
    except UserError:
        raise
    except (
        exceptions.PolarsError,
        exceptions.PanicException,
        OSError,
        EOFError,
        zlib.error,
        UnicodeError,
        ValueError,
    ) as error:
        reason = str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
        fault = (
            _fault(path, reason, header=header)
            or f"cannot be read as a table ({reason}): save it again, or as CSV"
        )
        raise UserError(f"{path} {fault}") from error


def _fault(path: Path, reason: str, *, header: bool) -> str | None:
    """A sentence for polars' reason not to read a text file; None for an unknown reason."""
    suffix = table_suffix(path)
    if suffix not in (".parquet", ".xlsx") and "utf-8" in reason.lower():
        return NOT_UTF8
    if suffix == ".csv" and ("malformed" in reason or 'parse `"' in reason):
        return 'has quotes that do not match: write a cell with a quote in it as "5"" pipe"'
    if suffix in SEPARATORS and ("more fields" in reason or "new_columns" in reason):
        return open_text_table(path, header=header).longer_row()
    return None
