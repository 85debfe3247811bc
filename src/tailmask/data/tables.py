"""Users' tables: features and labels from columns, or images from a column of paths."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tailmask.data.column_notes import IMAGES, column_notes, holds_images
from tailmask.data.columns import ColumnUse, column_uses
from tailmask.data.frames import matching_columns, read_frame
from tailmask.data.labels import Labels, labels_from_matrix, labels_from_tags, read_classes
from tailmask.data.manifest import FileRows, file_rows, path_column
from tailmask.data.numerals import bare_cells, with_numbers
from tailmask.data.options import DataOptions
from tailmask.data.table_encoder import TableEncoder, fit_column
from tailmask.data.tags import read_tags, tag_notes
from tailmask.errors import UserError, listing, nearest, require

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array

__all__ = ["TableRows", "read_table"]

# What a label may be in words, of whichever case.
_WORDS = {"true": "1", "yes": "1", "y": "1", "false": "0", "no": "0", "n": "0"}


@dataclass(frozen=True)
class TableRows:
    """Rows of a table, the columns to learn from, and those of them that are texts."""

    path: Path
    frame: pl.DataFrame
    columns: tuple[str, ...]
    text: tuple[str, ...]
    labels: tuple[str, ...]
    options: DataOptions

    def __len__(self) -> int:
        return self.frame.height

    def fit(self, index: NDArray[np.int64], options: DataOptions) -> TableEncoder:
        """The encoder with the statistics of the rows in `index`; columns that say nothing are not in it."""
        rows = self.frame[index]
        filled = [name for name in self.columns if self.frame[name].count()]
        columns = [column for name in filled if (column := fit_column(rows[name])).width]
        columns.sort(key=lambda column: column.kind == "category")  # numbers first, otherwise as they stand
        if not columns and not self.text:
            images = [name for name in self.columns if holds_images(self.frame[name])]
            hint = f"{images[0]} {IMAGES}" if images else "is one of them a --text?"
            raise UserError(
                f"{self.path} has nothing to learn from: no value of {listing(self.columns)} occurs twice "
                f"({hint})"
            )
        return TableEncoder(tuple(columns), self.text, options.text_buckets, not options.no_header)

    def encode(
        self, encoder: TableEncoder, index: NDArray[np.int64], *, training: bool = False
    ) -> Tensor | csr_array:
        """The inputs of the rows in `index`; they are the same in training."""
        needed = (*(column.name for column in encoder.columns), *encoder.text)
        absent = [name for name in needed if name not in self.frame.columns]
        if absent:
            raise UserError(f"{self.path} lacks the columns {listing(absent)}, which the training file has")
        return encoder.encode(self.frame[index])

    def uses(self, encoder: TableEncoder) -> tuple[ColumnUse, ...]:
        """What became of every column of the table."""
        return column_uses(self.frame, encoder, self.options, labels=self.labels)

    def notes(self, encoder: TableEncoder, index: NDArray[np.int64]) -> list[str]:
        """Columns that say nothing, cells that are empty, and what is probably a mistake."""
        constant = [
            column.name for column in encoder.columns if self.frame[column.name][index].n_unique() == 1
        ]
        return column_notes(self.frame, encoder, self.uses(encoder), constant=constant)

    @property
    def types(self) -> dict[str, Any]:
        """The types of the columns to learn from, which other files must have too; empty ones have none."""
        polars = require("polars", extra="tables")
        kinds = {name: self.frame.schema[name] for name in (*self.columns, *self.text)}
        return {
            name: polars.Float64 if kind.is_numeric() else kind
            for name, kind in kinds.items()
            if kind != polars.Null
        }


def read_table(
    path: Path, options: DataOptions, *, types: dict[str, Any] | None = None
) -> tuple[TableRows | FileRows, Labels]:
    """Features and labels of a table; with a column `path` and no choice of features, images and labels."""
    if options.labels is not None and options.label_column is not None:
        raise UserError(
            "name the columns of labels with --labels, or the one that holds all of a row's labels with "
            "--label-column, not both"
        )
    wanted = dict(types or {})
    if options.labels is None and path.suffix.lower() in (".csv", ".tsv"):
        # In a text file 01 is not 1; the other formats know what they hold.
        wanted[_tags_column(options)] = require("polars", extra="tables").String
    frame = read_frame(path, header=not options.no_header, types=wanted)
    required = types is None  # a second file need not have what is passed over
    dropped = matching_columns(options.drop, frame.columns, path, required=required)
    labels, label_columns = _labels(frame.drop(dropped), path, options)
    others = [name for name in frame.columns if name not in (*label_columns, *dropped)]
    images = path_column(others)
    if images is not None and options.text is None and options.features is None:
        others.remove(images)
        if others:
            note = f"images are learned from, and no other column: {listing(others)} is passed over"
            labels = replace(labels, notes=(*labels.notes, note))
        return file_rows(path, frame[images].cast(str).fill_null("").to_list(), options), labels
    text = matching_columns(options.text, others, path)
    features = others if options.features is None else matching_columns(options.features, others, path)
    features = [name for name in features if name not in text]
    if not features and not text:
        raise UserError(f"{path} has no column to learn from beside its labels {listing(label_columns)}")
    if types is None:
        frame = with_numbers(frame, features)
    return TableRows(path, frame, tuple(features), tuple(text), tuple(label_columns), options), labels


def _labels(frame: pl.DataFrame, path: Path, options: DataOptions) -> tuple[Labels, list[str]]:
    if options.labels is not None:
        columns = matching_columns(options.labels, frame.columns, path)
        matrix = np.stack([_label_values(frame[name], path) for name in columns], axis=1)
        return labels_from_matrix(matrix, columns, path, first_row=1), columns
    column = _tags_column(options)
    if column not in frame.columns:
        if options.label_column is not None:
            raise UserError(f"{path} has no column {column!r}: {nearest(column, frame.columns)}")
        raise UserError(
            f"which columns of {path} are labels? name them with --labels 'tag_*', "
            "or the one that holds all of a row's labels with --label-column"
        )
    classes = None if options.classes is None else read_classes(options.classes)
    tags = read_tags(frame[column], options.separator, path)
    notes = tuple(tag_notes(tags, column, options))
    if options.empty_tags == "none":
        tags = [row or () for row in tags]
    return replace(labels_from_tags(tags, path, classes=classes), notes=notes), [column]


def _tags_column(options: DataOptions) -> str:
    """The column that holds all of a row's labels where `--labels` names none."""
    return "labels" if options.label_column is None else options.label_column


def _label_values(series: pl.Series, path: Path) -> NDArray[np.float32]:
    polars = require("polars", extra="tables")
    if series.dtype.is_numeric() or series.dtype in (polars.Boolean, polars.Null):
        values: NDArray[np.float32] = series.cast(polars.Float32).fill_null(np.nan).to_numpy()
        return values
    known = bare_cells(series.cast(polars.String))
    values = known.replace(_WORDS).cast(polars.Float32, strict=False).fill_null(np.nan).to_numpy()
    wrong = np.flatnonzero(~np.isin(values, (0, 1, -1)) & known.is_not_null().to_numpy())
    if len(wrong):
        row = int(wrong[0])
        raise UserError(
            f"{path} has {str(series[row])[:40]!r} for class {series.name!r} in row {row + 1}: "
            "labels are 0 or 1 (or yes and no, true and false), and empty where they are not known"
        )
    return values
