"""Identifiers of the output's rows: a column of the input, the paths of images, or row numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailmask._util.messages import UserError, require
from tailmask.data.encoders.encoder import Encoder
from tailmask.data.readers.image_list import listed_images
from tailmask.data.readers.npz import Npz
from tailmask.data.readers.table.csv_text import SEPARATORS, table_suffix
from tailmask.data.readers.table.frames import frame_pieces, is_table

if TYPE_CHECKING:
    import polars as pl

    from tailmask.inference.row_predictor import RowPredictor

__all__ = ["identifiers"]


def identifiers(
    path: Path,
    encoder: Encoder | RowPredictor,
    batch_size: int,
    *,
    column: str | None,
    images: Path | None,
) -> tuple[str, Iterator[pl.Series] | None]:
    """The name of the identifiers of the samples that `encoder` reads, and their values in batches.

    They are the input's `column` if one is named, or the paths if the input lists images. Otherwise the
    second value is None: rows are identified by their numbers.
    """
    if column is not None:
        return column, _column(path, encoder, batch_size, column)
    if encoder.reads_images and path.suffix.lower() != ".npz":
        return "path", _paths(path, batch_size, images)
    return "row", None


def _column(path: Path, encoder: Encoder | RowPredictor, batch_size: int, column: str) -> Iterator[pl.Series]:
    polars = require("polars", extra="tables")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        file = Npz(path)
        file.require(column, "name yours with --id")
        for values in file.rows(column, batch_size):
            if values.ndim != 1:
                raise UserError(
                    f"{path}: {column!r} must have one value per row, got shape {values.shape[1:]}"
                )
            yield polars.Series(column, values)
    elif is_table(path):
        # In a text file, 007 stays different from 7; the other formats have types.
        types: dict[str, Any] = {column: polars.String} if table_suffix(path) in SEPARATORS else {}
        header = getattr(encoder, "header", True)  # of a table
        pieces = frame_pieces(
            path, batch_size, columns=[column], types=types, header=header, wanted="--id names"
        )
        yield from (frame[column] for frame in pieces)
    else:
        raise UserError(f"--id {column} needs a table or an .npz file, got {path}: leave it out")


def _paths(path: Path, batch_size: int, images: Path | None) -> Iterator[pl.Series]:
    """Paths relative to the folder of images, the list's folder, or the given folder."""
    polars = require("polars", extra="tables")
    folder = images or (path if path.is_dir() else path.parent)
    names = [str(file.relative_to(folder)) for file in listed_images(path, images)]
    for start in range(0, len(names), batch_size):
        yield polars.Series("path", names[start : start + batch_size])
