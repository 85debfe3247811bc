"""Columns of categories: one input for each frequent value, and shared ones for all others."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import require
from tailmask.data.encoders.columns import CONSTANT, NO_VALUE_TWICE, Form, is_frequent, least_count

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array

__all__ = ["CategoryColumn", "fit_category"]

# At most this many values of a column have an input of their own; scikit-learn's trees take at most 255.
MAX_VALUES = {"scaled": 1000, "raw": 250}

# Further frequent values share this many inputs by their hash.
BUCKETS = 128

_MOST_BUCKETS = 2**20


@dataclass(frozen=True)
class CategoryColumn:
    """A categorical column: its frequent values, and whether others are hashed or marked as rare or empty.

    `scaled`: one-hot. `raw`: the number of the value, the next number for all rare and unseen values, and NaN
    for an empty cell; hashed values have a second input.
    """

    name: str
    values: tuple[str, ...]
    buckets: int
    marks_rare: bool
    marks_empty: bool

    kind: ClassVar[Literal["category"]] = "category"

    def __post_init__(self) -> None:
        if not 0 <= self.buckets <= _MOST_BUCKETS:
            raise ValueError(f"buckets must be from 0 to {_MOST_BUCKETS}, got {self.buckets}")

    def outputs(self, form: Form) -> list[str]:
        """The names of its inputs."""
        if form == "raw":
            return [self.name, *([f"{self.name} (hashed)"] if self.buckets else [])]
        return [
            *(f"{self.name}={value}" for value in self.values),
            *(f"{self.name} (hash {bucket})" for bucket in range(self.buckets)),
            *([f"{self.name} is rare"] if self.marks_rare else []),
            *([f"{self.name} is empty"] if self.marks_empty else []),
        ]

    def encode(self, series: pl.Series, form: Form) -> NDArray[np.float32] | csr_array:
        """Inputs (N, number of outputs); `scaled` as CSR."""
        codes, hashed, empty = self._codes(series)
        others = (codes < 0) & ~empty
        if form == "raw":
            first = np.where(empty, np.nan, np.where(others, len(self.values), codes))
            columns = [first, np.where(others, hashed, np.nan)] if self.buckets else [first]
            return np.stack(columns, axis=1).astype(np.float32)
        rare, none = len(self.values) + self.buckets, len(self.values) + self.buckets + self.marks_rare
        pairs = [(codes >= 0, codes)]
        pairs += [(others, len(self.values) + hashed)] if self.buckets else []
        pairs += [(others, np.full(len(codes), rare))] if self.marks_rare else []
        pairs += [(empty, np.full(len(codes), none))] if self.marks_empty else []
        rows = np.concatenate([np.flatnonzero(chosen) for chosen, _ in pairs])
        places = np.concatenate([place[chosen] for chosen, place in pairs])
        sparse = require("scipy.sparse", extra="cli")
        ones = np.ones(len(rows), dtype=np.float32)
        return sparse.csr_array((ones, (rows, places)), shape=(len(codes), none + self.marks_empty))

    def _codes(self, series: pl.Series) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """The number of each row's value or −1, the hash of the value, and whether the cell is empty."""
        polars = require("polars", extra="tables")
        text = series.cast(polars.String)
        known = {value: number for number, value in enumerate(self.values)}
        codes = text.replace_strict(known, default=-1, return_dtype=polars.Int64).to_numpy()
        empty = text.is_null().to_numpy()
        hashed = np.zeros(len(codes), dtype=np.int64)
        if self.buckets:
            others = text.filter((codes < 0) & ~empty).unique().to_list()
            numbers = {value: zlib.crc32(value.encode()) % self.buckets for value in others}
            hashed = text.replace_strict(numbers, default=0, return_dtype=polars.Int64).to_numpy()
        return np.where(empty, -1, codes), hashed, empty

    @property
    def detail(self) -> str:
        """The number of values with an input, and how the others are encoded."""
        others = [f"others hashed into {self.buckets}"] if self.buckets else []
        others += ["rare ones together"] if self.marks_rare else []
        return ", ".join([f"{len(self.values)} values", *others])


def fit_category(series: pl.Series, form: Form) -> CategoryColumn | str:
    """How a column of text becomes inputs, or why it is left out."""
    text = series.cast(require("polars", extra="tables").String)
    rows, least = len(text), least_count(len(text))
    counts = sorted((-number, value) for value, number in text.drop_nulls().value_counts().rows())
    if len(counts) > 1 and counts[0][0] == -1:
        return NO_VALUE_TWICE
    frequent = [(number, value) for number, value in counts if -number >= least]
    taken, over = frequent[: MAX_VALUES[form]], frequent[MAX_VALUES[form] :]
    rare = rows - text.null_count() + sum(number for number, _ in frequent)
    marks_empty = is_frequent(text.null_count(), rows)
    if not taken and not marks_empty:
        return f"none of its values occurs in {least} rows or more"
    if len(counts) == 1 and not text.null_count():
        return CONSTANT
    return CategoryColumn(
        series.name,
        tuple(sorted(value for _, value in taken)),
        buckets=BUCKETS if over else 0,
        marks_rare=is_frequent(rare, rows),
        marks_empty=marks_empty,
    )
