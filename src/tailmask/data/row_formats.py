"""Formats that read and check new rows for a model that was fitted on raw rows; kept as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import UserError, listing, nearest, require
from tailmask._util.serialization import from_mapping, to_mapping
from tailmask.data.encoders.text import Analyzer
from tailmask.data.readers.npz import AS_IN_TRAINING, Npz
from tailmask.data.readers.table.column_types import with_types
from tailmask.data.readers.table.frames import frame_pieces
from tailmask.data.readers.table.program_frames import as_polars
from tailmask.data.rows import Rows, is_sparse

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array

    from tailmask.data.pretrained.backbone_format import BackboneFormat

__all__ = [
    "ArrayFormat",
    "ColumnKind",
    "RowFormat",
    "TableFormat",
    "array_pieces",
    "format_from_json",
    "table_format",
    "typed_columns",
]

ColumnKind: TypeAlias = Literal["number", "boolean", "text"]

_DAMAGED = "the stored format of the rows is damaged: fit the model again"


@dataclass(frozen=True)
class TableFormat:
    """The format of a table's rows: the columns to learn from with their kinds, and how texts are encoded.

    >>> polars = require("polars", extra="tables")
    >>> rows = TableFormat(("age", "city"), ("number", "text")).rows(
    ...     polars.DataFrame({"city": ["Bern"], "id": [7], "age": ["31"]})
    ... )
    >>> rows.features.rows()
    [(31.0, 'Bern')]
    """

    names: tuple[str, ...]
    kinds: tuple[ColumnKind, ...]  # of each column
    text: tuple[str, ...] = ()  # the columns that are free text
    text_analyzer: Analyzer = "word"
    text_terms: int | None = None  # None: the default of the learner
    text_buckets: int | None = None
    keep: tuple[str, ...] = ()  # the columns that the user named: they are not left out as IDs
    header: bool = True

    def __post_init__(self) -> None:
        known = dict(zip(self.names, self.kinds, strict=True))
        sizes = [size for size in (self.text_terms, self.text_buckets) if size is not None]
        is_sound = (
            0 < len(self.names) == len(known)
            and all(known.get(name) == "text" for name in self.text)
            and set(self.keep) <= set(self.names)
            and all(size > 0 for size in sizes)
        )
        if not is_sound:
            raise ValueError("columns of a table must have different names, and each must have its kind")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON for `format_from_json`."""
        return {"kind": "table", **to_mapping(self)}

    def pieces(self, path: Path, batch_size: int) -> Iterator[Rows]:
        """The unlabelled rows of a table with the columns of the training file, `batch_size` at a time."""
        frames = frame_pieces(path, batch_size, columns=self.names, types=self._types, header=self.header)
        for frame in frames:
            yield Rows(frame, format=self)

    def rows(self, features: pl.DataFrame | Any) -> Rows:
        """The unlabelled rows of a polars or pandas frame; columns are found by name."""
        if not hasattr(features, "columns"):
            raise UserError(
                f"the model was trained on a table: expected a polars or pandas frame, got "
                f"{type(features).__name__}"
            )
        return Rows(typed_columns(as_polars(features), self._types), format=self)

    @property
    def _types(self) -> dict[str, Any]:
        polars = require("polars", extra="tables")
        types = {"number": polars.Float64, "boolean": polars.Boolean, "text": polars.String}
        return {name: types[kind] for name, kind in zip(self.names, self.kinds, strict=True)}


@dataclass(frozen=True)
class ArrayFormat:
    """The format of rows of numbers: the number of features, and their names in .npz and ARFF files.

    >>> ArrayFormat("X", 2).rows([[1.0, 2.0]]).features
    array([[1., 2.]])
    """

    key: str
    num_features: int
    names: tuple[str, ...] | None = None  # the names of the features in an ARFF file

    def __post_init__(self) -> None:
        names = range(self.num_features) if self.names is None else self.names
        if self.num_features < 0 or len(names) != self.num_features:
            raise ValueError("arrays must have a name and a number of features, and each feature its name")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON for `format_from_json`."""
        return {"kind": "arrays", **to_mapping(self)}

    def pieces(self, path: Path, batch_size: int) -> Iterator[Rows]:
        """The unlabelled rows of an .npz or ARFF file, `batch_size` at a time."""
        for values in array_pieces(path, batch_size, key=self.key, names=self.names):
            yield self._checked(values, str(path))

    def rows(self, features: Any) -> Rows:
        """The unlabelled rows of an array (N, F), dense or one of scipy's."""
        if hasattr(features, "columns"):
            raise UserError(
                f"the model was trained on arrays: expected an array, got {type(features).__name__}"
            )
        csr_array = require("scipy.sparse", extra="cli").csr_array
        return self._checked(
            csr_array(features) if is_sparse(features) else np.asarray(features), "the array"
        )

    def _checked(self, values: NDArray[Any] | csr_array, where: str) -> Rows:
        if values.ndim != 2 or values.shape[1] != self.num_features:
            raise UserError(
                f"{where} must have {self.num_features} features per row, as in training, got the shape "
                f"{tuple(values.shape)}"
            )
        if values.dtype.kind not in "biuf":
            raise UserError(f"{where} must hold numbers, got the type {values.dtype}")
        return Rows(values, format=self)


RowFormat: TypeAlias = "TableFormat | ArrayFormat | BackboneFormat"


def table_format(frame: pl.DataFrame) -> TableFormat:
    """The format of a frame all of whose columns are features.

    >>> polars = require("polars", extra="tables")
    >>> table_format(polars.DataFrame({"age": [31], "city": ["Bern"]})).kinds
    ('number', 'text')
    """
    kinds: list[ColumnKind] = [
        "boolean" if kind.base_type().__name__ == "Boolean" else "number" if kind.is_numeric() else "text"
        for kind in frame.dtypes
    ]
    return TableFormat(tuple(frame.columns), tuple(kinds))


def format_from_json(value: object) -> RowFormat:
    """The format that `to_json` wrote; anything else is refused.

    >>> format_from_json({"kind": "arrays", "key": "X", "num_features": 2, "names": None})
    ArrayFormat(key='X', num_features=2, names=None)
    """
    if not isinstance(value, Mapping) or value.get("kind") not in ("table", "arrays", "backbone"):
        raise UserError(_DAMAGED)
    if value["kind"] == "backbone":
        from tailmask.data.pretrained.backbone_format import BackboneFormat

        try:
            return BackboneFormat.from_json(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(_DAMAGED) from error
    cls: type[TableFormat] | type[ArrayFormat] = TableFormat if value["kind"] == "table" else ArrayFormat
    try:
        return from_mapping(cls, {name: part for name, part in value.items() if name != "kind"})
    except (TypeError, ValueError) as error:
        raise UserError(_DAMAGED) from error


def typed_columns(frame: pl.DataFrame, types: Mapping[str, Any]) -> pl.DataFrame:
    """The columns that `types` names, in their types in training; others are ignored.

    >>> polars = require("polars", extra="tables")
    >>> typed_columns(polars.DataFrame({"a": [1], "b": [2]}), {"b": polars.Float64}).rows()
    [(2.0,)]
    """
    absent = [name for name in types if name not in frame.columns]
    others = [name for name in frame.columns if name not in types]
    if absent:
        raise UserError(
            f"the table lacks the columns {listing(absent)}, which the model was trained on: "
            f"{nearest(absent[0], others) if others else 'add them'}"
        )
    return with_types(frame.select(*types), dict(types), "the table")


def array_pieces(
    path: Path, batch_size: int, *, key: str, names: tuple[str, ...] | None
) -> Iterator[NDArray[Any] | csr_array]:
    """Rows of numbers in an .npz file under `key`, or the features `names` of an ARFF file."""
    if path.suffix.lower() == ".npz":
        file = Npz(path)
        file.require(key, AS_IN_TRAINING)
        yield from (file.csr_rows if file.is_csr(key) else file.rows)(key, batch_size)
    elif path.suffix.lower() == ".arff":
        from tailmask.data.readers.arff_features import arff_batches

        yield from arff_batches(path, names or (), batch_size)
    else:
        raise UserError(f"{path} must be an .npz or .arff file, as the model was trained on one")
