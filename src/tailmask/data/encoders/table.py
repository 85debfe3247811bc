"""Encoder of tables: each column has an encoding that suits it and the learner."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError, require
from tailmask._util.serialization import from_mapping
from tailmask.data.encoders.categories import CategoryColumn, fit_category
from tailmask.data.encoders.columns import EMPTY_IN_TRAINING, IDENTIFIER, Form, is_identifier
from tailmask.data.encoders.dates import DateColumn, fit_date
from tailmask.data.encoders.encoder import Encoder
from tailmask.data.encoders.numbers import NumberColumn, fit_number
from tailmask.data.encoders.text import MOST_TERMS, Analyzer, HashedTextColumn, TextColumn, fit_text
from tailmask.data.readers.table.frames import frame_pieces

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array

__all__ = ["TableColumn", "TableEncoder", "column_from_json", "fit_table_encoder"]

TableColumn: TypeAlias = NumberColumn | DateColumn | CategoryColumn | TextColumn | HashedTextColumn

_ORDER = ("number", "boolean", "date", "category", "text")
_TEXTS = ("String", "Categorical", "Enum", "Null", "Date", "Datetime", "Time")


@dataclass(frozen=True)
class TableEncoder(Encoder):
    """Encoder of a table's columns in one of two forms, fitted on some rows.

    `scaled` is for linear models and networks: numbers squashed, categories one-hot, empty cells marked,
    texts as TF-IDF. `raw` is for trees: unchanged numbers, NaN for empty cells, categories as codes.
    """

    form: Form
    columns: tuple[TableColumn, ...]
    left_out: Mapping[str, str]  # the columns that are not used, each with the reason
    header: bool = True

    kind = "table-2"

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise ValueError(f"the form must be scaled or raw, got {self.form!r}")

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of the inputs, column by column."""
        return tuple(name for column in self.columns for name in column.outputs(self.form))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of inputs."""
        return (len(self.outputs),)

    @property
    def text(self) -> tuple[str, ...]:
        """The text columns."""
        return tuple(column.name for column in self.columns if column.kind == "text")

    @property
    def categorical(self) -> tuple[int, ...]:
        """The inputs of the form `raw` that are codes of categories."""
        names = [
            (isinstance(column, CategoryColumn), name)
            for column in self.columns
            for name in column.outputs(self.form)
        ]
        return tuple(place for place, (is_code, _) in enumerate(names) if is_code and self.form == "raw")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON with each column's fitted encoding."""
        columns = [{"kind": column.kind, **asdict(column)} for column in self.columns]
        return {
            "kind": self.kind,
            "form": self.form,
            "columns": columns,
            "left_out": dict(self.left_out),
            "header": self.header,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableEncoder:
        """The encoder that `to_json` wrote; `Encoder.from_json` calls this for the kind `table-2`."""
        columns = tuple(column_from_json(column) for column in value["columns"])
        left_out = {str(name): str(reason) for name, reason in value["left_out"].items()}
        return cls(value["form"], columns, left_out, bool(value["header"]))

    def encode(self, frame: pl.DataFrame) -> NDArray[np.float32] | csr_array:
        """Inputs (N, F) in float32; CSR if most of them are zero, as for words."""
        few = len(self.columns) < 0.25 * self.shape[0]  # each column sets about one input per row
        if self.text or (self.form == "scaled" and self.shape[0] > 64 and few):
            sparse = require("scipy.sparse", extra="cli")
            blocks = [block for _, block in self._blocks(frame)]
            dense = [block for block in blocks if isinstance(block, np.ndarray)]  # these come first
            first = [_as_csr(np.concatenate(dense, axis=1))] if dense else []
            return sparse.hstack([*first, *blocks[len(dense) :]], format="csr", dtype=np.float32)
        inputs = np.zeros((frame.height, self.shape[0]), dtype=np.float32)
        for start, block in self._blocks(frame):
            values = block if isinstance(block, np.ndarray) else block.toarray()
            inputs[:, start : start + values.shape[1]] = values
        return inputs

    def _blocks(self, frame: pl.DataFrame) -> Iterator[tuple[int, NDArray[np.float32] | csr_array]]:
        start = 0
        for column in self.columns:
            block = column.encode(frame[column.name], self.form)
            yield start, block
            start += block.shape[1]

    @property
    def types(self) -> dict[str, Any]:
        """The polars type of each column, by name."""
        polars = require("polars", extra="tables")
        types = {"number": polars.Float64, "boolean": polars.Boolean}
        return {column.name: types.get(column.kind, polars.String) for column in self.columns}

    def batches(self, path: Path, batch_size: int) -> Iterator[Tensor]:
        """Inputs (B, F) of a table with the columns of the training file; others are ignored."""
        pieces = frame_pieces(
            path, batch_size, columns=list(self.types), types=self.types, header=self.header
        )
        for frame in pieces:
            encoded = self.encode(frame)
            yield torch.from_numpy(encoded if isinstance(encoded, np.ndarray) else encoded.toarray())


def fit_table_encoder(
    frame: pl.DataFrame,
    *,
    form: Form = "scaled",
    text: Sequence[str] = (),
    text_analyzer: Analyzer = "word",
    text_terms: int = MOST_TERMS,
    text_buckets: int | None = None,
    keep: Collection[str] = (),
    header: bool = True,
) -> TableEncoder:
    """The encoder of a table's columns with the statistics of its rows; all columns are features.

    The columns in `text` become TF-IDF, or with `text_buckets` hashed counts. Uninformative columns are left
    out. So are columns that look like IDs, unless they are in `keep` or there are no others.

    >>> polars = require("polars", extra="tables")
    >>> frame = polars.DataFrame({"age": [20, 30, None, 50], "day": ["2024-01-05", None, "2024-03-01", None]})
    >>> encoder = fit_table_encoder(frame, form="raw")
    >>> encoder.outputs
    ('age', 'day (days)', 'day (month)')
    >>> encoder.encode(frame).tolist()
    [[20.0, 0.0, 1.0], [30.0, nan, nan], [nan, 56.0, 3.0], [50.0, nan, nan]]
    """
    fitted: dict[str, TableColumn | str] = {}
    for series in frame:
        if series.name in text:
            fitted[series.name] = (
                fit_text(series, form, analyzer=text_analyzer, max_terms=text_terms)
                if text_buckets is None
                else HashedTextColumn(series.name, text_buckets)
            )
        elif series.name not in keep and is_identifier(series):
            fitted[series.name] = IDENTIFIER
        else:
            fitted[series.name] = _fit(series, form)
    if all(isinstance(column, str) for column in fitted.values()):
        identifiers = [name for name, column in fitted.items() if column == IDENTIFIER]
        fitted |= {name: _fit(frame[name], form) for name in identifiers}
    columns = [column for column in fitted.values() if not isinstance(column, str)]
    columns.sort(key=lambda column: _ORDER.index(column.kind))
    left_out = {name: reason for name, reason in fitted.items() if isinstance(reason, str)}
    return TableEncoder(form, tuple(columns), left_out, header)


def _fit(series: pl.Series, form: Form) -> TableColumn | str:
    kind = series.dtype.base_type().__name__
    if series.dtype.is_numeric() or kind == "Boolean":
        return fit_number(series)
    if kind not in _TEXTS:
        raise UserError(
            f"the column {series.name!r} holds values of the type {kind}, neither numbers nor text: leave it "
            f"out with --drop {series.name!r}"
        )
    if not series.count():
        return EMPTY_IN_TRAINING
    date = fit_date(series)
    return fit_category(series, form) if date is None else date


def _as_csr(dense: NDArray[np.float32]) -> csr_array:
    """A dense block as CSR with its zeros stored: there are few, and leaving them out takes time."""
    rows, width = dense.shape
    places = (dense.reshape(-1), np.tile(np.arange(width, dtype=np.int32), rows), np.arange(rows + 1) * width)
    return require("scipy.sparse", extra="cli").csr_array(places, shape=dense.shape)


def column_from_json(value: Mapping[str, Any]) -> TableColumn:
    """The encoding of a column from its fields and its `kind`."""
    fields, kind = dict(value), value["kind"]
    if kind in ("number", "boolean"):  # the other columns have their kind by their class
        return from_mapping(NumberColumn, fields)
    del fields["kind"]
    match kind:
        case "date":
            return from_mapping(DateColumn, fields)
        case "category":
            return from_mapping(CategoryColumn, fields)
        case "text" if "buckets" in value:
            return from_mapping(HashedTextColumn, fields)
        case "text":
            return from_mapping(TextColumn, fields)
    raise ValueError(f"the column {value.get('name')!r} cannot be of kind {kind!r}")
