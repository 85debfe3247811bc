"""What tells the rows of an output apart: a column of the input, the paths of images, or row numbers."""

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
    column: str | None = None,
    images: Path | None = None,
) -> tuple[str, Iterator[pl.Series] | None]:
    """What tells the samples apart that `encoder` reads from a file: its name, and `batch_size` at a time.

    It is the input's own `column` where one is named, and the paths where the input lists images; else there
    is nothing but the number of a `row`, which None stands for.
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
                raise UserError(f"{path}: {column!r} must hold one value a row, got shape {values.shape[1:]}")
            yield polars.Series(column, values)
    elif is_table(path):
        # In a text file 007 is not 7; the other formats know what they hold.
        types: dict[str, Any] = {column: polars.String} if table_suffix(path) in SEPARATORS else {}
        header = getattr(encoder, "header", True)  # of a table
        pieces = frame_pieces(
            path, batch_size, columns=[column], types=types, header=header, wanted="--id names"
        )
        yield from (frame[column] for frame in pieces)
    else:
        raise UserError(f"{path} has no columns or arrays to take --id {column} from")


def _paths(path: Path, batch_size: int, images: Path | None) -> Iterator[pl.Series]:
    """Paths as the list gives them, or as seen from the folder."""
    polars = require("polars", extra="tables")
    folder = images or (path if path.is_dir() else path.parent)
    names = [str(file.relative_to(folder)) for file in listed_images(path, images)]
    for start in range(0, len(names), batch_size):
        yield polars.Series("path", names[start : start + batch_size])
