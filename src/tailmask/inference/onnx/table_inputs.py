"""The columns of a table as inputs of a program, one input each; two for dates with times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from tailmask._util.messages import UserError, require
from tailmask.data.encoders.categories import CategoryColumn
from tailmask.data.encoders.dates import DateColumn, read_moments
from tailmask.data.encoders.numbers import NumberColumn
from tailmask.data.encoders.table import TableColumn, TableEncoder
from tailmask.data.row_formats import TableFormat
from tailmask.data.rows import Rows
from tailmask.inference.onnx.calendar_parts import calendar_part
from tailmask.inference.onnx.graph import Graph
from tailmask.inference.onnx.row_inputs import Encode, Landmarks, drawn_from
from tailmask.inference.onnx.table_encoding import encoded_table
from tailmask.learners.matrices import Array
from tailmask.learners.matrix.row_encoders import EncodedTable, RowEncoder

__all__ = ["TableInputs"]

Kind = Literal["number", "flag", "category", "days", "hours"]

_HOLDS: dict[Kind, str] = {
    "number": "numbers (float64), NaN if missing",
    "flag": "texts: true or false, empty if missing",
    "category": "texts, empty if missing",
    "days": "whole days since 1970-01-01 (float64), NaN if missing",
    "hours": "hours since midnight, such as 6.5 (float64), NaN if missing",
}
_TRUE, _FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")


class _Input(NamedTuple):
    name: str
    column: str
    kind: Kind


@dataclass(frozen=True)
class TableInputs:
    """Inputs (batch, 1) with the names of the columns; dates have one for days and one for hours."""

    format: TableFormat
    columns: dict[str, list[TableColumn]]  # those that the model uses, each with its encodings

    @classmethod
    def of(cls, encoders: Sequence[TableEncoder], row_format: TableFormat) -> TableInputs:
        """The inputs of some encoders; a UserError names the columns that ONNX cannot encode."""
        columns: dict[str, list[TableColumn]] = {}
        for encoder in encoders:
            for column in encoder.columns:
                columns.setdefault(column.name, []).append(column)
        for name, encodings in columns.items():
            reason = _obstacle(encodings)
            if reason is not None:
                raise UserError(f"the column {name!r} {reason}")
        return cls(row_format, columns)

    @property
    def inputs(self) -> list[_Input]:
        """The inputs, in the order of the columns."""
        taken = {"", "probabilities", "logits"}
        inputs = []
        for column in self.columns:
            for kind in self._kinds(column):
                name = f"{column} ({kind})" if kind in ("days", "hours") else column
                while name in taken:
                    name += "_"
                taken.add(name)
                inputs.append(_Input(name, column, kind))
        return inputs

    @property
    def about(self) -> list[dict[str, Any]]:
        """The name of each input, its column, and what it holds."""
        return [
            {"name": each.name, "column": each.column, "holds": _HOLDS[each.kind]} for each in self.inputs
        ]

    def declare(self, graph: Graph) -> Encode:
        """Add the inputs."""
        texts = ("flag", "category")
        inputs = {
            (each.column, each.kind): graph.input(each.name, np.str_ if each.kind in texts else np.float64, 1)
            for each in self.inputs
        }

        @cache
        def cell(column: str, part: str) -> str:
            """A column's value, a part of a date, or whether it is empty; see `table_encoding.Cell`."""
            own = {kind: name for (owner, kind), name in inputs.items() if owner == column}
            if part == "empty":
                parts = {"days": "days", "hours": "hour"}
                first, *others = [graph.op("IsNaN", cell(column, parts.get(kind, "value"))) for kind in own]
                return graph.op("And", first, *others) if others else first
            if part == "value" and "flag" in own:
                return _flag(graph, own["flag"])
            if part in ("value", "hour"):
                return next(name for kind, name in own.items() if kind != "days")
            return calendar_part(graph, own["days"], part)

        def encode(encoder: RowEncoder) -> str:
            assert isinstance(encoder, EncodedTable)
            return encoded_table(graph, encoder.encoder, cell)

        return encode

    def feed(self, rows: Rows) -> dict[str, Array]:
        """The cells of a table."""
        return {each.name: self._values(rows.features[each.column], each)[:, None] for each in self.inputs}

    def drawn(self, count: int, landmarks: list[Landmarks], generator: np.random.Generator) -> Any:
        """A frame with cells near knots and thresholds, known and unknown categories, empty cells."""
        pools: dict[str, list[Any]] = {name: [None] for name in self.format.names}
        for each in landmarks:
            assert isinstance(each.encoder, EncodedTable)
            encoder = each.encoder.encoder
            owners = [column.name for column in encoder.columns for _ in column.outputs(encoder.form)]
            owner = owners[each.column]
            if self._kinds(owner) == ["number"]:
                pools[owner] += each.values.astype(np.float64).tolist()
        for name, encodings in self.columns.items():
            for encoding in encodings:
                is_flag = self._kinds(name) == ["flag"]
                pools[name] += [0.0, 1.0] if is_flag else _examples(encoding, generator)
        polars = require("polars", extra="tables")
        return polars.DataFrame(
            [polars.Series(name, drawn_from(pool, count, generator)) for name, pool in pools.items()]
        )

    def _kinds(self, column: str) -> list[Kind]:
        stated = self.format.kinds[self.format.names.index(column)]
        if stated != "text":
            return ["number" if stated == "number" else "flag"]
        dates = [each for each in self.columns[column] if isinstance(each, DateColumn)]
        if not dates:
            return ["category"]
        has_hours = any("hour" in each.parts for each in dates)
        has_days = any(each.days is not None or set(each.parts) - {"hour"} for each in dates)
        days: list[Kind] = ["days"] if has_days or not has_hours else []
        return [*days, "hours"] if has_hours else days

    def _values(self, series: Any, each: _Input) -> Array:
        if each.kind == "category":
            return np.array(series.fill_null("").to_list(), dtype=object)
        if each.kind in ("days", "hours"):
            day_first = any(isinstance(c, DateColumn) and c.day_first for c in self.columns[each.column])
            moments = read_moments(series, day_first=day_first)
            return moments.days if each.kind == "days" else moments.hours
        numbers = series.cast(float).fill_null(np.nan).to_numpy()
        if each.kind == "number":
            return np.asarray(numbers, dtype=np.float64)
        return np.where(np.isnan(numbers), "", np.where(numbers == 1, "true", "false")).astype(object)


def _obstacle(encodings: Sequence[TableColumn]) -> str | None:
    """The reason why a column cannot be an input, as the end of a sentence; None if it can."""
    if any(each.kind == "text" for each in encodings):
        return "is text, and no operators of ONNX split texts into the same words"
    if any(isinstance(each, CategoryColumn) and each.buckets for each in encodings):
        return "has so many values that rare ones share numbers by a hash, which ONNX lacks"
    if any(isinstance(each, CategoryColumn) and "" in each.values for each in encodings):
        return "had empty texts beside missing cells in training, and a program cannot tell them apart"
    if len({each.kind for each in encodings}) > 1:
        return "is read as dates by a part of the models and as categories by others"
    return None


def _flag(graph: Graph, text: str) -> str:
    """1 for true, 0 for false, NaN for all other texts."""
    values = [1.0] * len(_TRUE) + [0.0] * len(_FALSE)
    flag = graph.op(
        "LabelEncoder", text, keys_strings=[*_TRUE, *_FALSE], values_floats=values, default_float=float("nan")
    )
    return graph.cast(flag, np.float64)


def _examples(column: TableColumn, generator: np.random.Generator) -> list[Any]:
    """Cells at which a column's encoding changes, and some beyond."""
    if isinstance(column, NumberColumn):
        scale, steps = column.scale, np.array([-4, -1, 0, 0.3, 1, 4])
        spread = min(scale.spread, 1e100)
        return [scale.low, scale.high, *scale.knots, *(scale.center + steps * spread).tolist()]
    if isinstance(column, CategoryColumn):
        return [*column.values, "a value that is not in the training rows"]
    assert isinstance(column, DateColumn)
    times = [f"{hour:02d}:{minute:02d}" for hour, minute in generator.integers(0, (24, 60), (8, 2)).tolist()]
    if column.days is None and set(column.parts) == {"hour"}:
        return times
    low, high = (-25567, 40000) if column.days is None else (int(column.days.low), int(column.days.high))
    days = generator.integers(low - 50, high + 400, 24).tolist()
    dates = [str(np.datetime64(day, "D")) for day in (low, high, *days)]
    return [*dates, *(f"{date} {time}" for date, time in zip(dates, times, strict=False))]
