"""Raw rows of the parts of a data set, for learners that fit their own encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tailmask._util.messages import require
from tailmask.data.copied_rows import groups_with_copies
from tailmask.data.encoders.array import ArrayRows
from tailmask.data.readers.dataset_parts import Part
from tailmask.data.readers.table.table_dataset import TableRows
from tailmask.data.row_formats import ArrayFormat, ColumnKind, TableFormat
from tailmask.data.rows import Features, RawData, Rows

__all__ = ["MOST_LABELS", "dense_targets", "raw_data"]

# Targets are made dense if they have at most this many entries: 100 MB.
MOST_LABELS = 10**8


def raw_data(parts: Mapping[str, Part], *, without_features: bool) -> RawData | None:
    """The raw rows of the parts; None for images, or if dense targets would be huge.

    With `without_features` a pretrained model computes the features later.
    """
    rows = [part.rows for part in parts.values()]
    labels = sum(len(part.index) * len(part.labels.classes) for part in parts.values())
    row_format = _array_format(rows) or _table_format(rows)
    if labels > MOST_LABELS or (row_format is None and not without_features):
        return None
    development = _development(parts)
    return RawData(
        Rows(
            _joined([_features(part, row_format) for part in development]),
            np.concatenate([dense_targets(part.labels.take(part.index)) for part in development]),
            groups=_groups(development),
            times=_taken([part.times for part in development], development),
            format=row_format,
        ),
        Rows(
            _features(parts["test"], row_format),
            dense_targets(parts["test"].labels.take(parts["test"].index)),
            groups=_taken([parts["test"].groups], [parts["test"]]),
            times=_taken([parts["test"].times], [parts["test"]]),
            format=row_format,
        ),
        num_train=len(parts["train"].index),
    )


def dense_targets(targets: Tensor | Any) -> npt.NDArray[np.int8]:
    """Targets of a split as a dense array.

    >>> import torch
    >>> dense_targets(torch.tensor([[1, -1]], dtype=torch.int8))
    array([[ 1, -1]], dtype=int8)
    """
    dense: npt.NDArray[np.int8] = targets.numpy() if isinstance(targets, Tensor) else targets.toarray()
    return dense.astype(np.int8, copy=False)


def _development(parts: Mapping[str, Part]) -> list[Part]:
    """The training rows and then the validation rows, as one part if they come from one file."""
    train, validation = parts["train"], parts.get("validation")
    if validation is None:
        return [train]
    if validation.rows is train.rows:
        return [replace(train, index=np.concatenate([train.index, validation.index]))]
    return [train, validation]


def _array_format(rows: Sequence[object]) -> ArrayFormat | None:
    first = rows[0]
    if not isinstance(first, ArrayRows) or not all(isinstance(each, ArrayRows) for each in rows):
        return None
    return ArrayFormat(first.key, int(first.values.shape[1]), first.names)


def _table_format(rows: Sequence[object]) -> TableFormat | None:
    """The format of a table, with the columns that all files have and that training does not leave empty."""
    tables = [each for each in rows if isinstance(each, TableRows)]
    if len(tables) < len(rows):
        return None
    polars, first = require("polars", extra="tables"), tables[0]
    kinds: dict[Any, ColumnKind] = {polars.Float64: "number", polars.Boolean: "boolean"}
    columns = {
        name: kinds.get(kind, "text")
        for name, kind in first.types.items()
        if first.frame[name].count() and all(name in each.frame.columns for each in tables)
    }
    options = first.options
    if not columns:  # a column of texts that are all empty
        return None
    return TableFormat(
        names=tuple(columns),
        kinds=tuple(columns.values()),
        text=tuple(name for name in first.text if name in columns),
        text_analyzer=options.text_analyzer,
        text_terms=options.text_terms,
        text_buckets=options.text_buckets,
        keep=() if options.features is None else tuple(name for name in first.columns if name in columns),
        header=not options.no_header,
    )


def _features(part: Part, row_format: TableFormat | ArrayFormat | None) -> Features:
    rows = part.rows
    if row_format is None:
        return np.empty((len(part.index), 0), dtype=np.float32)
    if isinstance(row_format, TableFormat) and isinstance(rows, TableRows):
        return row_format.rows(rows.frame.select(row_format.names)[part.index]).features
    assert isinstance(rows, ArrayRows)
    return rows.values[part.index]


def _joined(features: Sequence[Features]) -> Features:
    if len(features) == 1:
        return features[0]
    if hasattr(features[0], "columns"):
        return require("polars", extra="tables").concat(features)
    if all(isinstance(each, np.ndarray) for each in features):
        return np.concatenate(features)
    sparse = require("scipy.sparse", extra="cli")
    return sparse.vstack([sparse.csr_array(each) for each in features], format="csr")


def _taken(values: Sequence[npt.NDArray[Any] | None], parts: Sequence[Part]) -> npt.NDArray[Any] | None:
    """The values of the rows that the parts take; None if a part has none."""
    taken = [each[part.index] for each, part in zip(values, parts, strict=True) if each is not None]
    return np.concatenate(taken) if len(taken) == len(parts) else None


def _groups(parts: Sequence[Part]) -> npt.NDArray[np.int64] | None:
    """Group numbers that keep groups and copies of a row together; None if there are neither.

    Copies are not kept together if rows are equal by chance, or if folds go forward in time.
    """
    groups = _taken([part.groups for part in parts], parts)
    if parts[0].times is not None:
        return groups
    return groups_with_copies(np.concatenate([part.keys[part.index] for part in parts]), groups)
