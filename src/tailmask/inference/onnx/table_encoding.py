"""The encoding of a table's columns in an ONNX graph; see `data/encoders/table.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tailmask.data.encoders.categories import CategoryColumn
from tailmask.data.encoders.dates import DateColumn
from tailmask.data.encoders.numbers import LIMIT, NumberColumn, Scale
from tailmask.data.encoders.table import TableEncoder
from tailmask.inference.onnx.graph import Graph
from tailmask.learners.matrices import Array

__all__ = ["Cell", "encoded_table"]

# The value (batch, 1) of a column: (name, "value") is a number in float64 or a text; a date has "days" since
# 1970, "year", "month" and "weekday", "hour", and "empty" (a boolean).
Cell = Callable[[str, str], str]

_LARGEST = float(np.finfo(np.float64).max)
_PERIODS = {"month": 12.0, "weekday": 7.0, "hour": 24.0}


def encoded_table(graph: Graph, encoder: TableEncoder, cell: Cell) -> str:
    """The matrix (batch, width) in float32, in the encoder's order of outputs."""
    return (_raw if encoder.form == "raw" else _scaled)(graph, encoder, cell)


def _raw(graph: Graph, encoder: TableEncoder, cell: Cell) -> str:
    """Numbers, parts of dates, and codes of categories; NaN if missing."""
    numbers, codes = [], []
    for column in encoder.columns:  # numbers come first, then dates, then categories
        if isinstance(column, NumberColumn):
            numbers.append(cell(column.name, "value"))
        elif isinstance(column, DateColumn):
            if column.days is not None:
                numbers.append(graph.op("Sub", cell(column.name, "days"), np.array(column.days.low)))
            numbers += [cell(column.name, part) for part in column.parts]
        elif isinstance(column, CategoryColumn):
            codes.append(_code(graph, column, cell(column.name, "value")))
    blocks = [_as_float32(graph, graph.concat(numbers))] if numbers else []
    return graph.concat([*blocks, *codes])


def _scaled(graph: Graph, encoder: TableEncoder, cell: Cell) -> str:
    """Scaled numbers and days, parts of dates as points on a circle, marks of empty cells, one-hot values."""
    numbers: dict[str, tuple[str, Scale]] = {}
    angles, empty = {}, {}
    wanted: list[tuple[str, ...]] = []  # the outputs in the encoder's order
    one_hot = []
    for column in encoder.columns:  # categories come last
        name = column.name
        if isinstance(column, CategoryColumn):
            one_hot.append(_one_hot(graph, column, cell(name, "value")))
        elif isinstance(column, NumberColumn | DateColumn):
            is_date = isinstance(column, DateColumn)
            scale = column.days if isinstance(column, DateColumn) else column.scale
            if scale is not None:
                numbers[name] = cell(name, "days" if is_date else "value"), scale
                wanted += [("squashed", name)] + [("score", name)] * bool(scale.knots)
            for part in [each for each in getattr(column, "parts", ()) if each in _PERIODS]:
                turned = graph.op("Mul", cell(name, part), np.array(2 * np.pi))
                angles[name, part] = graph.op("Div", turned, np.array(_PERIODS[part]))
                wanted += [("sine", name, part), ("cosine", name, part)]
            if column.marks_empty:
                empty[name] = cell(name, "empty")
                wanted.append(("empty", name))
    made: list[tuple[str, ...]] = []
    values: list[str] = []
    if numbers:
        values += _on_scales(graph, *zip(*numbers.values(), strict=True))
        made += [(way, name) for way in ("squashed", "score") for name in numbers]
    if angles:
        values += _on_circles(graph, graph.concat(list(angles.values())))
        made += [(way, *angle) for way in ("sine", "cosine") for angle in angles]
    if empty:
        values.append(graph.cast(graph.concat(list(empty.values())), np.float64))
        made += [("empty", name) for name in empty]
    if not wanted:
        return graph.concat(one_hot)
    order = np.array([made.index(output) for output in wanted])
    ordered = graph.op("Gather", graph.concat(values), order, axis=1)
    return graph.concat([graph.cast(ordered, np.float32), *one_hot])


def _on_scales(graph: Graph, numbers: Sequence[str], scales: Sequence[Scale]) -> list[str]:
    """Squashed numbers and normal scores, both (batch, K); see `Scale`."""
    center, spread = np.array([(scale.center, scale.spread) for scale in scales]).T
    raw = graph.concat(numbers)
    missing = graph.op("IsNaN", raw)
    known = _clipped(graph, graph.op("Where", missing, center, raw), _LARGEST)
    ratio = _clipped(graph, graph.op("Div", graph.op("Sub", known, center), spread), 1e100)
    part = graph.op("Div", ratio, np.array(LIMIT))
    length = graph.op("Sqrt", graph.op("Add", graph.op("Mul", part, part), np.array(1.0)))
    scores = graph.op("Where", missing, np.zeros(1), _interpolated(graph, known, scales))
    return [graph.op("Div", ratio, length), scores]


def _interpolated(graph: Graph, numbers: str, scales: Sequence[Scale]) -> str:
    """The levels of numbers (batch, K) between knots, as `np.interp` gives them; 0 if there are no knots."""
    longest = max(1, *(len(scale.knots) for scale in scales))
    knots = np.full((len(scales), longest), np.inf)
    level, slope, origin = (np.zeros((len(scales), longest + 1)) for _ in range(3))
    for row, scale in [(row, scale) for row, scale in enumerate(scales) if scale.knots]:
        count, at, height = len(scale.knots), np.array(scale.knots), np.array(scale.levels)
        knots[row, :count] = at
        level[row, : count + 1] = [height[0], *height]
        slope[row, 1:count], origin[row, 1:count] = np.diff(height) / np.diff(at), at[:-1]
    passed = graph.op("GreaterOrEqual", graph.op("Unsqueeze", numbers, np.array([2])), knots)
    interval = graph.op("ReduceSum", graph.cast(passed, np.int32), np.array([2]), keepdims=0)  # 0: below all
    first = np.arange(len(scales), dtype=np.int32) * np.int32(longest + 1)
    place = graph.op("Add", interval, first)
    lowest, rise, begin = (graph.op("Gather", each.reshape(-1), place) for each in (level, slope, origin))
    return graph.op("Add", graph.op("Mul", rise, graph.op("Sub", numbers, begin)), lowest)


def _on_circles(graph: Graph, angles: str) -> list[str]:
    """The sines and cosines of angles, 0 if missing."""
    missing = graph.op("IsNaN", angles)
    return [graph.op("Where", missing, np.zeros(1), graph.op(way, angles)) for way in ("Sin", "Cos")]


def _code(graph: Graph, column: CategoryColumn, text: str) -> str:
    """The number of the value; the next number for all others, NaN for an empty cell."""
    keys, codes = _known(column, np.nan)
    others = float(len(column.values))
    return graph.op("LabelEncoder", text, keys_strings=keys, values_floats=codes, default_float=others)


def _one_hot(graph: Graph, column: CategoryColumn, text: str) -> str:
    """One-hot values (batch, outputs)."""
    width, rare = len(column.outputs("scaled")), len(column.values)
    none = width  # all zeros
    keys, codes = _known(column, rare + column.marks_rare if column.marks_empty else none)
    others = rare if column.marks_rare else none
    code = graph.op("LabelEncoder", text, keys_strings=keys, values_int64s=codes, default_int64=others)
    rows = graph.op("OneHot", code, np.array(width), np.array([0.0, 1.0], np.float32))  # (batch, 1, outputs)
    return graph.op("Squeeze", rows, np.array([1]))


def _known(column: CategoryColumn, empty: float) -> tuple[list[str], Array]:
    """The values with their numbers, and the empty text with the code of an empty cell."""
    known = dict.fromkeys(["", *column.values])
    codes = {"": empty} | {value: number for number, value in enumerate(column.values)}
    return list(known), np.array([codes[key] for key in known])


def _clipped(graph: Graph, numbers: str, limit: float) -> str:
    return graph.op("Clip", numbers, np.array(-limit), np.array(limit))


def _as_float32(graph: Graph, numbers: str) -> str:
    """Numbers in float32: the largest one instead of infinity, NaN stays."""
    missing = graph.op("IsNaN", numbers)
    known = graph.op("Where", missing, np.zeros(1), numbers)
    narrow = graph.cast(_clipped(graph, known, float(np.finfo(np.float32).max)), np.float32)
    return graph.op("Where", missing, np.full(1, np.nan, np.float32), narrow)
