"""Tables in CSV, TSV, Parquet and JSON-lines files, read by polars, whole or piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tailmask.data.numerals import bare_cells
from tailmask.data.text_tables import NOT_UTF8, SEPARATORS, open_text_table
from tailmask.errors import UserError, listing, nearest, require

if TYPE_CHECKING:
    import polars as pl

__all__ = ["TABLES", "frame_pieces", "matching_columns", "read_frame"]

TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")

_BOOLEANS = {"true": "1", "false": "0"}

# Whether all cells of a text file's row are empty: a column whose name no other has, as names are stripped.
_EMPTY = "\n"


def read_frame(path: Path, *, header: bool = True, types: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """A whole table, dates and times in it as text, as a CSV file has them.

    `types` are those that some columns must have, as they had them in the training file; booleans become
    numbers.
    """
    polars = require("polars", extra="tables")
    with _sentence(path, header=header):
        whole = _scan(path, header=header, types=types).collect()
        (frame,) = _without_blank_lines([whole], path, header=header)
        frame = frame.with_columns(polars.col(polars.Date, polars.Datetime, polars.Time).cast(polars.String))
    if frame.height == 0:
        raise UserError(f"{path} has no rows")
    return frame


def frame_pieces(
    path: Path,
    batch_size: int,
    *,
    columns: Sequence[str],
    types: Mapping[str, Any],
    header: bool = True,
    wanted: str = "the model was trained on",
) -> Iterator[pl.DataFrame]:
    """Some columns of a table, which are `wanted` for something, `batch_size` rows at a time."""
    polars = require("polars", extra="tables")
    with _sentence(path, header=header):
        scan = _scan(path, header=header, types=types, infer=False)
        there = scan.collect_schema().names()
        absent = [name for name in columns if name not in there]
        if absent:
            hint = nearest(absent[0], (name for name in there if name != _EMPTY))
            raise UserError(f"{path} lacks the columns {listing(absent)}, which {wanted}: {hint}")
        taken = scan.select(*columns, *(name for name in there if name == _EMPTY))
        rest = None
        for chunk in _without_blank_lines(taken.collect_batches(chunk_size=batch_size), path, header=header):
            rest = chunk if rest is None else polars.concat([rest, chunk])
            while rest.height >= batch_size:
                yield rest.head(batch_size)
                rest = rest.slice(batch_size)
        if rest is not None and rest.height:
            yield rest


def matching_columns(
    patterns: str | None, columns: Sequence[str], where: object, *, required: bool = True
) -> list[str]:
    """The columns that match a name or pattern, several of which are separated by commas; None matches none.

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


def _scan(path: Path, *, header: bool, types: Mapping[str, Any] | None, infer: bool = True) -> pl.LazyFrame:
    """A table that is yet to be read; without `infer`, columns whose type is not given are texts."""
    polars = require("polars", extra="tables")
    suffix, wanted = path.suffix.lower(), dict(types or {})
    scan: pl.LazyFrame
    if suffix not in SEPARATORS:
        if suffix == ".parquet":
            scan = polars.scan_parquet(path, glob=False)
        else:
            scan = polars.scan_ndjson(path, infer_schema_length=None)
        present = scan.collect_schema()
        texts = [name for name, kind in present.items() if kind == polars.String]
        return _cast(scan, {name: wanted[name] for name in wanted if name in present}, texts)
    table = open_text_table(path, header=header)
    numbers = {name: kind for name, kind in wanted.items() if _is_number(kind) and name in table.names}
    scan = polars.scan_csv(
        path,
        has_header=header,
        new_columns=table.names,
        separator=table.separator,
        quote_char=table.quote,
        infer_schema=infer,
        infer_schema_length=None if infer else 0,
        schema_overrides=wanted | dict.fromkeys(numbers, polars.String),
        glob=False,
    )
    # Marks of empty cells are cells: they are as yet what the file has.
    scan = scan.with_columns(polars.all_horizontal(polars.all().is_null()).alias(_EMPTY))
    return _cast(scan, numbers, list(numbers))


def _cast(scan: pl.LazyFrame, types: Mapping[str, Any], texts: Sequence[str]) -> pl.LazyFrame:
    """The table with columns of the given types, and numbers for booleans, in words or as 0 and 1.

    Marks of empty cells are no hindrance to numbers.
    """
    polars = require("polars", extra="tables")
    words = {name: _BOOLEANS if types[name] == polars.Boolean else {} for name in texts if name in types}
    marked = [
        bare_cells(polars.col(name)).replace(meaning)
        for name, meaning in words.items()
        if _is_number(types[name])
    ]
    kinds = {name: polars.Float64 if kind == polars.Boolean else kind for name, kind in types.items()}
    # In two steps, so that errors know the column's name.
    return scan.with_columns(marked).with_columns(polars.col(name).cast(kind) for name, kind in kinds.items())


def _without_blank_lines(
    chunks: Iterable[pl.DataFrame], path: Path, *, header: bool
) -> Iterator[pl.DataFrame]:
    """The rows of a table but for blank lines, which to polars are rows of empty cells, as `,,` is one."""
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


def _is_number(kind: Any) -> bool:
    return bool(kind.is_numeric() or kind == require("polars", extra="tables").Boolean)


@contextmanager
def _sentence(path: Path, *, header: bool) -> Iterator[None]:
    exceptions = require("polars", extra="tables").exceptions
    try:
        yield
    except UserError:
        raise
    except (exceptions.PolarsError, exceptions.PanicException, OSError, UnicodeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
        fault = _fault(path, reason, header=header) or f"cannot be read as a table ({reason})"
        raise UserError(f"{path} {fault}") from error


def _fault(path: Path, reason: str, *, header: bool) -> str | None:
    """What is wrong with a text file, where the reason that was given for it is one that is known."""
    suffix = path.suffix.lower()
    if suffix != ".parquet" and "utf-8" in reason.lower():
        return NOT_UTF8
    if suffix == ".csv" and "malformed" in reason:
        return 'has quotes that do not match: write a cell with a quote in it as "5"" pipe"'
    if suffix in SEPARATORS and ("more fields" in reason or "new_columns" in reason):
        return open_text_table(path, header=header).longer_row()
    return None
