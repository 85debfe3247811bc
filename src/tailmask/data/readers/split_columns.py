"""Columns for splits: rows that stay together (`--group`), and the order in time (`--time`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import UserError, nearest, require
from tailmask.data.encoders.dates import days_of
from tailmask.data.encoders.numbers import as_float
from tailmask.data.options import DataOptions
from tailmask.data.readers.dataset_parts import Part
from tailmask.data.readers.npz import Npz
from tailmask.data.readers.table.column_types import as_text
from tailmask.data.readers.table.frames import is_table, read_frame
from tailmask.data.readers.table.numerals import as_numbers, bare_cells
from tailmask.data.readers.table.table_dataset import TableRows, TextRows

if TYPE_CHECKING:
    import polars as pl

__all__ = ["split_column_notes", "with_groups_and_times"]


def with_groups_and_times(parts: Mapping[str, Part], options: DataOptions) -> dict[str, Part]:
    """The parts with the groups and times of their rows, if the options name columns for them."""
    parts = dict(parts)
    ends = np.cumsum([len(part.rows) for part in parts.values()])[:-1]
    if options.group is not None:
        cells = {name: _column(part, options.group, options) for name, part in parts.items()}
        numbers = np.split(_groups(cells), ends)
        parts = {name: replace(parts[name], groups=each) for name, each in zip(parts, numbers, strict=True)}
    if options.time is not None:
        cells = {name: _column(part, options.time, options) for name, part in parts.items()}
        times = np.split(_times(cells, parts), ends)
        parts = {name: replace(parts[name], times=each) for name, each in zip(parts, times, strict=True)}
    return parts


def split_column_notes(parts: Mapping[str, Part], options: DataOptions, *, read: int) -> Iterator[str]:
    """Notes on how groups and times were used; `read` is the number of rows of all files."""
    train = parts["train"]
    if options.group is not None:
        yield f"rows with the same {options.group!r} are in the same part; it is not used as a feature"
        for name, part in parts.items():
            if name == "train" or part.groups is None or train.groups is None:
                continue
            shared = np.isin(part.groups[part.index], train.groups[train.index]).sum()
            if shared:
                yield f"{shared} rows of {name} share {options.group!r} with training: scores may be too good"
    if options.time is not None:
        named = isinstance(train.rows, TableRows) and options.time in train.rows.columns
        use = "" if named else f"; {options.time!r} is not used as a feature unless --features names it"
        split = "the latest are test rows, and the rows before them are validation rows"
        yield f"rows are split by {options.time!r}: {split}{use}"
        for name, part in parts.items():
            if name == "train" or part.times is None or train.times is None:
                continue
            early = int((part.times[part.index] <= train.times[train.index].max()).sum())
            if early:
                yield f"{early} rows of {name} are not later than all training rows"
    left_out = read - sum(len(part.index) for part in parts.values())
    if left_out:
        yield (f"{left_out} rows are in no part: later rows with the same {options.group!r} are held out")


def _column(part: Part, name: str, options: DataOptions) -> pl.Series:
    """One column of a part's file, or one array of it."""
    polars, path = require("polars", extra="tables"), part.path
    series: pl.Series
    if isinstance(part.rows, TableRows | TextRows) or is_table(path):
        frame = (
            part.rows.frame
            if isinstance(part.rows, TableRows | TextRows)
            else read_frame(path, header=not options.no_header, types={name: polars.String})
        )
        if name not in frame.columns:
            raise UserError(f"{path} has no column {name!r}: {nearest(name, frame.columns)}")
        series = frame[name]
        return series
    if path.suffix.lower() != ".npz":
        raise UserError(f"--group and --time name columns of tables or arrays in .npz files, not of {path}")
    file = Npz(path)
    file.require(name, "--group and --time name arrays with one value per row")
    values = file.array(name)
    if values.shape != (len(part.rows),):
        raise UserError(
            f"{path}: {name!r} must have one value for each of the {len(part.rows)} rows, got the shape "
            f"{values.shape}"
        )
    series = polars.Series(name, values.astype(np.str_).tolist() if values.dtype.kind in "SU" else values)
    return series


def _groups(cells: Mapping[str, pl.Series]) -> NDArray[np.int64]:
    """The group number of each row; a row with an empty cell is a group of its own."""
    polars = require("polars", extra="tables")
    texts = polars.concat([as_text(series, "--group").str.strip_chars() for series in cells.values()])
    empty = bare_cells(texts).is_null().to_numpy()
    numbers: NDArray[np.int64] = texts.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    return np.where(empty, numbers.max() + 1 + np.arange(len(texts)), numbers)


def _times(cells: Mapping[str, pl.Series], parts: Mapping[str, Part]) -> NDArray[np.float64]:
    """The time of each row: a number, or days since 1970; a row without one is refused."""
    polars = require("polars", extra="tables")
    if all(series.dtype.is_numeric() for series in cells.values()):
        times = np.concatenate([as_float(series) for series in cells.values()])
    else:
        texts = polars.concat([series.cast(polars.String) for series in cells.values()])
        bare = bare_cells(texts)
        numbers = as_numbers(bare)
        times = as_float(numbers) if numbers.count() == bare.count() else days_of(texts)
    start = 0
    for name, series in cells.items():
        wrong = np.flatnonzero(~np.isfinite(times[start : start + len(series)]))
        start += len(series)
        if len(wrong):
            row, where = int(wrong[0]), f"in row {wrong[0] + 1} of the column {series.name!r}"
            text = str(series[row])[:40]
            what = f"has no time {where}" if bare_cells(polars.Series([text])).is_null()[0] else ""
            what = what or f"has {text!r} {where}, which is neither a date nor a number"
            raise UserError(
                f"{parts[name].path} {what}: --time needs one in every row, such as 2024-01-31 or 1706659200"
            )
    return times
