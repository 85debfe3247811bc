"""Tables of predictions in CSV, Parquet and JSON-lines files, written piece by piece."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tailmask._util.messages import UserError, require

if TYPE_CHECKING:
    import polars as pl

__all__ = ["SUFFIXES", "Piece", "check_class_names", "column_names", "write_pieces"]

SUFFIXES = (".csv", ".parquet", ".jsonl")

# Rows and numbers in a row group of a Parquet file. A whole group is in memory, so it must not be too large.
# The file's footer has an entry for every group and is in memory too, so groups must not be too small.
GROUP_ROWS = 2**18
GROUP_NUMBERS = 2**24


@dataclass(frozen=True)
class Piece:
    """Some rows of the table: identifiers, labels (lists of names), and one column per class."""

    identifiers: pl.Series
    labels: pl.Series
    probabilities: pl.DataFrame


def write_pieces(pieces: Iterator[Piece], path: Path, suffix: str) -> None:
    """Write one or more pieces in the format of `suffix`."""
    writers: dict[str, Callable[[Iterator[Piece], Path], None]] = {
        ".csv": _write_csv,
        ".parquet": _write_parquet,
        ".jsonl": _write_jsonl,
    }
    writers[suffix](pieces, path)


def column_names(identifier: str, classes: Sequence[str], suffix: str) -> tuple[str, str]:
    """The names of the columns of identifiers and of labels, different from all classes.

    >>> column_names("row", ["cat", "row"], ".csv")
    ('row_', 'labels')
    """
    taken = {"probabilities"} if suffix == ".jsonl" else set(classes)
    labels = _free("labels", taken)
    return _free(identifier, taken | {labels}), labels


def check_class_names(classes: Sequence[str], suffix: str) -> None:
    """Raise a `UserError` if a class's name has a comma and the file is a .csv.

    >>> check_class_names(["cats, dogs"], ".csv")
    Traceback (most recent call last):
    tailmask._util.messages.UserError: the class ...
    """
    for name in classes:
        if suffix == ".csv" and "," in name:
            raise UserError(
                f"the class {name!r} has a comma in its name, and commas separate labels in a .csv file: "
                "write a .jsonl or .parquet file"
            )


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _write_csv(pieces: Iterator[Piece], path: Path) -> None:
    with path.open("wb") as file:
        for number, piece in enumerate(pieces):
            joined = replace(piece, labels=piece.labels.list.join(","))
            _flat(joined).write_csv(file, include_header=number == 0)


def _write_jsonl(pieces: Iterator[Piece], path: Path) -> None:
    polars = require("polars", extra="tables")
    with path.open("wb") as file:
        for piece in pieces:
            nested = piece.probabilities.to_struct("probabilities")
            polars.DataFrame([piece.identifiers, piece.labels, nested]).write_ndjson(file)


def _write_parquet(pieces: Iterator[Piece], path: Path) -> None:
    plugins = require("polars.io.plugins", extra="tables")
    first = _flat(next(pieces))

    def frames(*_: object) -> Iterator[pl.DataFrame]:
        yield from itertools.chain([first], map(_flat, pieces))

    scan: pl.LazyFrame = plugins.register_io_source(frames, schema=first.schema)
    # Into an open file: with a path, a thread of polars could create the file again after a failed write.
    with path.open("wb") as file:
        scan.sink_parquet(file, row_group_size=max(1, min(GROUP_ROWS, GROUP_NUMBERS // first.width)))


def _flat(piece: Piece) -> pl.DataFrame:
    return piece.identifiers.to_frame().hstack([piece.labels]).hstack(piece.probabilities)
