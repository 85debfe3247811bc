"""What became of each column of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tailmask.data.frames import matching_columns
from tailmask.data.table_encoder import Column, TableEncoder

if TYPE_CHECKING:
    import polars as pl

    from tailmask.data.options import DataOptions

__all__ = ["EMPTY", "NO_VALUE_TWICE", "ColumnUse", "column_uses"]

NO_VALUE_TWICE = "no value of it occurs twice"
EMPTY = "all of its cells are empty"

Use = Literal["number", "boolean", "category", "text", "label", "left out"]


@dataclass(frozen=True)
class ColumnUse:
    """What became of one column: its use, how it is taken or why it is not, its inputs and empty cells."""

    name: str
    use: Use
    detail: str = ""
    inputs: int = 0
    empty: int = 0


def column_uses(
    frame: pl.DataFrame, encoder: TableEncoder, options: DataOptions, *, labels: tuple[str, ...]
) -> tuple[ColumnUse, ...]:
    """What became of every column of a table, in the table's order."""
    fitted = {column.name: column for column in encoder.columns}
    dropped = matching_columns(options.drop, frame.columns, "the table")
    chosen = matching_columns(options.features, frame.columns, "the table")

    def use(name: str) -> tuple[Use, str, int]:
        if name in fitted:
            return fitted[name].kind, _detail(fitted[name]), fitted[name].width
        if name in encoder.text:
            return "text", f"hashed into {encoder.text_buckets} inputs", encoder.text_buckets
        if name in labels:
            return "label", "", 0
        if name in dropped:
            return "left out", "as --drop says", 0
        if options.features is not None and name not in chosen:
            return "left out", "not among --features", 0
        return "left out", NO_VALUE_TWICE if frame[name].count() else EMPTY, 0

    return tuple(ColumnUse(name, *use(name), frame[name].null_count()) for name in frame.columns)


def _detail(column: Column) -> str:
    if column.kind == "category":
        return f"{len(column.values)} values"
    return f"mean {column.mean:.4g}, deviation {column.scale:.4g}" if column.kind == "number" else ""
