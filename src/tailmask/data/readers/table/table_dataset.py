"""Users' tables: features and labels from columns, or images from a column of paths."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError, listing, nearest, require
from tailmask.data.copied_rows import compared_columns, frame_keys
from tailmask.data.encoders.dates import DateColumn, read_moments
from tailmask.data.encoders.numbers import as_float
from tailmask.data.encoders.standard_table import StandardTableEncoder, fit_standard_encoder
from tailmask.data.encoders.table import fit_table_encoder
from tailmask.data.encoders.text import MOST_TERMS
from tailmask.data.giveaway_features import FeatureSample, give_away_notes, sampled
from tailmask.data.options import DataOptions
from tailmask.data.readers.image_list import FileRows, file_rows, path_column
from tailmask.data.readers.table.column_summary import ColumnUse, column_uses
from tailmask.data.readers.table.column_types import as_text, is_number
from tailmask.data.readers.table.csv_text import SEPARATORS, table_suffix
from tailmask.data.readers.table.frames import matching_columns, read_frame
from tailmask.data.readers.table.label_columns import (
    Labels,
    labels_from_matrix,
    labels_from_tags,
    read_classes,
)
from tailmask.data.readers.table.numerals import bare_cells, with_numbers
from tailmask.data.readers.table.suspicious_columns import IMAGES, AnyTableEncoder, column_notes, holds_images
from tailmask.data.readers.table.tags import read_tags, tag_notes
from tailmask.data.readers.table.text_rows import TextRows, select_texts

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array

__all__ = ["TableRows", "TextRows", "read_table", "table_rows"]


# The words that a label may be, in upper or lower case.
_WORDS = {"true": "1", "yes": "1", "y": "1", "false": "0", "no": "0", "n": "0"}


@dataclass(frozen=True)
class TableRows:
    """Rows of a table, the columns to learn from, and which of these columns are texts."""

    path: Path
    frame: pl.DataFrame
    columns: tuple[str, ...]
    text: tuple[str, ...]
    labels: tuple[str, ...]
    options: DataOptions

    def __len__(self) -> int:
        return self.frame.height

    def keys(self, like: TableRows | None = None) -> NDArray[np.uint64]:
        """One value per row, the same for rows with the same features in the columns of `like`."""
        names = (self if like is None else like)._compared
        return frame_keys(self.frame, [name for name in names if name in self.frame.columns])

    @property
    def _compared(self) -> list[str]:
        """The columns that copies of a row share, including texts."""
        keep = () if self.options.features is None else self.columns
        return [*compared_columns(self.frame, self.columns, keep=keep), *self.text]

    def fit(self, index: NDArray[np.int64], options: DataOptions) -> AnyTableEncoder:
        """The encoder with the statistics of the rows in `index`, without uninformative columns."""
        rows, header = self.frame[index].select(*self.columns, *self.text), not options.no_header
        encoder: AnyTableEncoder
        if options.encoding == "standard-1":
            encoder = fit_standard_encoder(rows, self.text, options.text_buckets, header=header)
        else:
            encoder = fit_table_encoder(
                rows,
                text=self.text,
                text_analyzer=options.text_analyzer,
                text_terms=options.text_terms or MOST_TERMS,
                text_buckets=options.text_buckets,
                keep=() if options.features is None else self.columns,
                header=header,
            )
        if not encoder.columns and not encoder.text:
            images = [name for name in self.columns if holds_images(self.frame[name])]
            hint = f"{images[0]} {IMAGES}" if images else "if one of them is text, name it in --text"
            raise UserError(
                f"{self.path} has nothing to learn from: no value of {listing((*self.columns, *self.text))} "
                f"occurs twice, or all are the same ({hint})"
            )
        return encoder

    def encode(
        self, encoder: AnyTableEncoder, index: NDArray[np.int64], *, training: bool = False
    ) -> Tensor | csr_array:
        """The inputs of the rows in `index`; they are the same in training."""
        needed = (*(column.name for column in encoder.columns), *encoder.text)
        absent = [name for name in needed if name not in self.frame.columns]
        if absent:
            raise UserError(
                f"{self.path} lacks the columns {listing(absent)}, which the training file has: add them"
            )
        inputs = encoder.encode(self.frame[index])
        return torch.from_numpy(inputs) if isinstance(inputs, np.ndarray) else inputs

    def digest(self) -> str:
        """SHA-256 of the table."""
        return hashlib.sha256(self.frame.write_ndjson().encode()).hexdigest()

    def uses(self, encoder: AnyTableEncoder) -> tuple[ColumnUse, ...]:
        """How each column of the table is used."""
        return column_uses(self.frame, encoder, self.options, labels=self.labels)

    def notes(self, encoder: AnyTableEncoder, index: NDArray[np.int64], labels: Labels) -> list[str]:
        """Notes on uninformative columns, columns that give labels away, empty cells and likely mistakes."""
        constant = []
        if isinstance(encoder, StandardTableEncoder):  # the other encoder leaves such columns out
            columns = (column.name for column in encoder.columns)
            constant = [name for name in columns if self.frame[name][index].n_unique() == 1]
        rows = sampled(index, len(encoder.columns))
        told = give_away_notes(self._features(encoder, rows), labels.take(rows), labels.classes)
        return [*column_notes(self.frame, encoder, self.uses(encoder), constant=constant), *told]

    def _features(self, encoder: AnyTableEncoder, index: NDArray[np.int64]) -> FeatureSample:
        """The columns of some rows as numbers, categories by the order of their values; no texts."""
        polars = require("polars", extra="tables")
        rows, used = self.frame[index], [column for column in encoder.columns if column.kind != "text"]
        values = np.full((len(index), len(used)), np.nan)
        for number, column in enumerate(used):
            series = rows[column.name]
            if isinstance(column, DateColumn):
                days, hours, _ = read_moments(series, day_first=column.day_first)
                values[:, number] = hours if np.isnan(days).all() else days
            elif column.kind == "category":
                values[:, number] = as_float(series.cast(polars.String).rank("dense"))
            else:
                values[:, number] = as_float(series)
        categories = {number for number, column in enumerate(used) if column.kind == "category"}
        return FeatureSample(tuple(column.name for column in used), values, frozenset(categories))

    @property
    def types(self) -> dict[str, Any]:
        """The types of the columns to learn from; other files must have them too. Empty columns have none.

        Types are those that an encoder knows: numbers, booleans and text.
        """
        polars = require("polars", extra="tables")
        kinds = {name: self.frame.schema[name] for name in (*self.columns, *self.text)}
        return {
            name: polars.Boolean
            if kind == polars.Boolean
            else polars.Float64
            if is_number(kind)
            else polars.String
            for name, kind in kinds.items()
            if kind != polars.Null
        }


def read_table(
    path: Path, options: DataOptions, *, types: dict[str, Any] | None = None
) -> tuple[TableRows | FileRows | TextRows, Labels]:
    """Features and labels of a table; with a column `path` and no choice of features, images and labels."""
    if options.labels is not None and options.label_column is not None:
        raise UserError(
            "name the columns of labels with --labels, or the one that holds all of a row's labels with "
            "--label-column, not both"
        )
    wanted = dict(types or {})
    if options.labels is None and table_suffix(path) in SEPARATORS:
        # In a text file 01 is not 1; other formats have types.
        wanted[_tags_column(options)] = require("polars", extra="tables").String
    if options.group is not None and table_suffix(path) in SEPARATORS:
        wanted[options.group] = require("polars", extra="tables").String
    frame = read_frame(path, header=not options.no_header, types=wanted, text=options.text)
    return table_rows(frame, path, options, types=types)


def table_rows(
    frame: pl.DataFrame, path: Path, options: DataOptions, *, types: dict[str, Any] | None = None
) -> tuple[TableRows | FileRows | TextRows, Labels]:
    """The result of `read_table` for a frame; errors call it `path`."""
    required = types is None  # a second file need not have the dropped columns
    dropped = matching_columns(options.drop, frame.columns, path, required=required)
    labels, label_columns = _labels(frame.drop(dropped), path, options)
    split_by = [options.group] if options.features is not None else [options.group, options.time]
    others = [name for name in frame.columns if name not in (*label_columns, *dropped, *split_by)]
    images = path_column(others)
    if images is not None and options.text is None and options.features is None:
        others.remove(images)
        if others:
            note = f"only images are used as features: {listing(others)} is ignored"
            labels = replace(labels, notes=(*labels.notes, note))
        return file_rows(path, frame[images].cast(str).fill_null("").to_list(), options), labels
    if options.features_of is not None:
        rows = select_texts(frame, others, path, options, columns=None if types is None else tuple(types))
        return rows, replace(labels, notes=(*labels.notes, *rows.passed_over(others)))
    text = matching_columns(options.text, others, path)
    features = others if options.features is None else matching_columns(options.features, others, path)
    features = [name for name in features if name not in text]
    if not features and not text:
        raise UserError(
            f"{path} has no column to learn from, only its labels {listing(label_columns)}: add a column"
        )
    frame = frame.with_columns(as_text(frame[name], path) for name in text)
    if types is None:
        frame = with_numbers(frame, features, typed=table_suffix(path) not in SEPARATORS)
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
    """The column that holds all labels of a row, if `--labels` names none."""
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
            "labels are 0 or 1 (or yes and no, true and false), and empty if unknown"
        )
    return values
