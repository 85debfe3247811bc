"""Predictions as a table: one row per sample, computed and written piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tailmask._util.files import atomic_path
from tailmask._util.messages import UserError, require
from tailmask.data import NAMED
from tailmask.inference.output_file import check_path
from tailmask.inference.prediction_files import SUFFIXES, Piece, check_class_names, column_names, write_pieces
from tailmask.inference.predictor import Predictor
from tailmask.inference.row_names import identifiers
from tailmask.inference.row_predictor import RowPredictor

if TYPE_CHECKING:
    import polars as pl

__all__ = ["write_predictions"]


def write_predictions(
    predictor: Predictor | RowPredictor,
    source: Path | str,
    out: Path | str,
    *,
    id_column: str | None = None,
    images: Path | str | None = None,
    force: bool = False,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Predict for every sample in `source`, write a table to `out`, and return the number of its rows.

    A row has an identifier (`id_column` of the input, the path of an image, or the row number from 0), the
    predicted `labels`, and the probability of each class in a column with the class's name. A .jsonl file has
    the probabilities in one object, a .csv file the labels in one cell, separated by commas. If a class is
    called `row`, `path` or `labels`, the other column is `row_`, `path_` or `labels_`.

    Neither the input nor the table is in memory as a whole. `out` appears once it is complete.

    Args:
        predictor: The model.
        source: A file of the kind that the model was trained on, or images; its labels are ignored.
        out: The file to write, .csv, .parquet or .jsonl.
        id_column: Column of a table, or array of an .npz file, that identifies rows.
        images: The folder that paths in a list of images are relative to; None: the list's folder.
        force: True to overwrite an existing file.
        progress: Called with the number of rows so far.
    """
    source, out = Path(source), Path(out)
    check_path(out, SUFFIXES, force=force)
    _check_source(source, out)
    suffix, number = out.suffix.lower(), 0
    check_class_names(predictor.classes, suffix)

    pieces = _pieces(predictor, source, suffix, id_column, None if images is None else Path(images))

    def counted() -> Iterator[Piece]:
        nonlocal number
        for piece in _reading(source, pieces):
            yield piece
            number += piece.probabilities.height
            if progress is not None:
                progress(number)

    try:
        with atomic_path(out) as path:
            write_pieces(counted(), path, suffix)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror or error}") from error
    return number


def _check_source(source: Path, out: Path) -> None:
    if not source.exists():
        hint = (
            ": predict reads files; a run keeps its outputs on the test split in predictions.npz"
            if str(source) in NAMED
            else ""
        )
        raise UserError(f"there is no file {source}{hint}")
    if out.exists() and source.samefile(out):
        raise UserError(f"{out} is the input file: choose another file for the output")


def _reading(source: Path, pieces: Iterator[Piece]) -> Iterator[Piece]:
    """The pieces. An `OSError` while reading becomes an error about the source, not about the output."""
    try:
        yield from pieces
    except OSError as error:
        raise UserError(f"{source} cannot be read: {error.strerror or error}") from error


def _pieces(
    predictor: Predictor | RowPredictor, source: Path, suffix: str, id_column: str | None, images: Path | None
) -> Iterator[Piece]:
    """The table's pieces; an empty input gives one empty piece."""
    polars: Any = require("polars", extra="tables")
    reader = predictor.encoder if isinstance(predictor, Predictor) else predictor
    name, names = identifiers(source, reader, predictor.batch_size, column=id_column, images=images)
    own_name, labels_name = column_names(name, predictor.classes, suffix)
    start = 0
    batches: Iterator[Any] = predictor.batches(source, images=images)
    for inputs in batches:
        end = start + len(inputs)
        named = polars.int_range(start, end, eager=True) if names is None else next(names, None)
        if named is None or len(named) != len(inputs):
            raise UserError(f"{source} must have one {name!r} per sample: choose another column with --id")
        probabilities, logits = predictor.outputs(inputs)
        if not bool(probabilities.isfinite().all()):
            row = start + int(probabilities.isfinite().all(dim=1).logical_not().nonzero()[0])
            raise UserError(
                f"row {row} of {source} (the first is 0) has values too large for the network: correct them, "
                "or leave the row out"
            )
        yield _piece(predictor, named.alias(own_name), probabilities, logits, labels_name)
        start = end
    if start == 0:
        nothing = torch.empty(0, len(predictor.classes))
        yield _piece(predictor, polars.Series(own_name, [], polars.String), nothing, nothing, labels_name)


def _piece(
    predictor: Predictor | RowPredictor,
    names: pl.Series,
    probabilities: Tensor,
    logits: Tensor,
    labels_name: str,
) -> Piece:
    polars: Any = require("polars", extra="tables")
    labels = _label_lists(predictor.decision.labels(probabilities, logits), predictor.classes)
    columns = polars.from_numpy(probabilities.numpy(), schema=list(predictor.classes), orient="row")
    return Piece(names, labels.alias(labels_name), columns)


def _label_lists(decided: Tensor, classes: Sequence[str]) -> pl.Series:
    """The names of each row's labels (B,), by polars: Python lists take five times as long."""
    polars: Any = require("polars", extra="tables")
    rows, columns = (index.numpy() for index in decided.nonzero(as_tuple=True))
    found = polars.DataFrame({"row": rows, "labels": polars.Series(classes).gather(columns)})
    lists = found.group_by("row", maintain_order=True).agg("labels")
    every = polars.DataFrame({"row": polars.int_range(len(decided), eager=True)})
    joined = every.join(lists, on="row", how="left", maintain_order="left")
    series: pl.Series = joined.select(polars.col("labels").fill_null([]))["labels"]
    return series
