"""How each column of a table is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tailmask.data.encoders.columns import EMPTY_IN_TRAINING, NO_VALUE_TWICE
from tailmask.data.encoders.standard_table import StandardTableEncoder
from tailmask.data.encoders.table import TableEncoder
from tailmask.data.readers.table.column_types import is_number
from tailmask.data.readers.table.frames import matching_columns

if TYPE_CHECKING:
    import polars as pl

    from tailmask.data.options import DataOptions

__all__ = ["EMPTY", "ColumnUse", "column_uses"]

AS_DROPPED, NOT_CHOSEN = "as --drop says", "not among --features"
EMPTY = "all of its cells are empty"
GROUPS, ORDERS = "it says which rows stay together (--group)", "it says which rows are later (--time)"

Use = Literal["number", "boolean", "date", "category", "text", "label", "left out"]


@dataclass(frozen=True)
class ColumnUse:
    """How one column is used: its use, the details or why it is left out, and its size."""

    name: str
    use: Use
    detail: str = ""
    inputs: int = 0
    empty: int = 0
    rows: int = 0

    @property
    def by_choice(self) -> bool:
        """True if the user left the column out."""
        return self.detail in (AS_DROPPED, NOT_CHOSEN, GROUPS, ORDERS)


def column_uses(
    frame: pl.DataFrame,
    encoder: TableEncoder | StandardTableEncoder,
    options: DataOptions,
    *,
    labels: tuple[str, ...],
) -> tuple[ColumnUse, ...]:
    """How every column of a table is used, in the table's order."""
    fitted = _of_standard(encoder) if isinstance(encoder, StandardTableEncoder) else _of_table(encoder)
    dropped = matching_columns(options.drop, frame.columns, "the table")
    chosen = matching_columns(options.features, frame.columns, "the table")

    def use(name: str) -> tuple[Use, str, int]:
        if name in fitted:
            return fitted[name]
        if name in labels:
            return "label", "", 0
        if name in (options.group, options.time):
            return "left out", GROUPS if name == options.group else ORDERS, 0
        if name in dropped:
            return "left out", AS_DROPPED, 0
        if options.features is not None and name not in chosen:
            return "left out", NOT_CHOSEN, 0
        if not frame[name].count():
            return "left out", EMPTY, 0
        if isinstance(encoder, TableEncoder):
            return "left out", encoder.left_out[name], 0
        return "left out", EMPTY_IN_TRAINING if is_number(frame.schema[name]) else NO_VALUE_TWICE, 0

    return tuple(
        ColumnUse(name, *use(name), frame[name].null_count(), frame.height) for name in frame.columns
    )


def _of_table(encoder: TableEncoder) -> dict[str, tuple[Use, str, int]]:
    return {
        column.name: (column.kind, column.detail, len(column.outputs(encoder.form)))
        for column in encoder.columns
    }


def _of_standard(encoder: StandardTableEncoder) -> dict[str, tuple[Use, str, int]]:
    buckets = encoder.text_buckets
    text: tuple[Use, str, int] = "text", f"hashed into {buckets} inputs", buckets
    uses = dict.fromkeys(encoder.text, text)
    for column in encoder.columns:
        moments = f"mean {column.mean:.4g}, deviation {column.scale:.4g}" if column.kind == "number" else ""
        detail = f"{len(column.values)} values" if column.kind == "category" else moments
        uses[column.name] = column.kind, detail, column.width
    return uses
