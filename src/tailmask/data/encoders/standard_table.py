"""Tables in the encoding `standard-1`: numbers standardised, categories one-hot, texts as hashed counts.

Published results were made with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError, require
from tailmask._util.serialization import from_mapping
from tailmask.data.encoders.encoder import Encoder
from tailmask.data.encoders.scales import column_scales
from tailmask.data.encoders.text import HashedTextColumn
from tailmask.data.readers.table.frames import frame_pieces

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array

__all__ = ["Column", "StandardTableEncoder", "fit_standard_encoder"]

_Kind = Literal["number", "boolean", "category"]

# Categories are values that the training split has at least twice, at most this many per column.
MAX_CATEGORIES = 1000

# The default number of inputs that words share.
TEXT_BUCKETS = 2**14


@dataclass(frozen=True)
class Column:
    """The encoding of one column: one input for a number, one per value for a category."""

    name: str
    kind: _Kind
    mean: float = 0.0
    scale: float = 1.0
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and 0 < self.scale < math.inf):
            raise UserError(
                f"the column {self.name!r} has numbers that are too large: leave such cells empty"
            )

    @property
    def width(self) -> int:
        """The number of inputs."""
        return len(self.values) if self.kind == "category" else 1


@dataclass(frozen=True)
class StandardTableEncoder(Encoder):
    """Encoder of a table's columns, fitted on the training split.

    Numbers get mean 0 and deviation 1, and a missing one becomes the mean. A category that training did not
    see is all zeros. Numbers come first, then categories, then the words of the text columns. Words share
    `text_buckets` inputs by their hash, and their counts are scaled to norm 1.
    """

    columns: tuple[Column, ...]
    text: tuple[str, ...] = ()
    text_buckets: int = 0
    header: bool = True

    kind = "table"

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of inputs: of numbers, categories and words together."""
        return (sum(column.width for column in self.columns) + (self.text_buckets if self.text else 0),)

    def to_json(self) -> dict[str, Any]:
        """The columns that are used, each with its moments or categories, and how texts are hashed."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StandardTableEncoder:
        """The encoder that `to_json` wrote; `Encoder.from_json` calls this for the kind `table`."""
        return from_mapping(cls, {name: part for name, part in value.items() if name != "kind"})

    def encode(self, frame: pl.DataFrame) -> Tensor | csr_array:
        """Inputs (N, F) in float32: numbers, categories, words; CSR if most of them are zero."""
        numbers = self._numbers(frame)
        categories = [(column.width, _codes(column, frame[column.name])) for column in self._categories]
        filled = len(self.columns) / max(self.shape[0], 1)  # each column sets one input per row
        if self.text or (self.shape[0] > 64 and filled < 0.25):
            sparse, polars = require("scipy.sparse", extra="cli"), require("polars", extra="tables")
            blocks = [sparse.csr_array(numbers), *(_one_hot(width, codes) for width, codes in categories)]
            if self.text:
                texts = polars.concat_str(self.text, separator=" ", ignore_nulls=True)
                words = HashedTextColumn("words", self.text_buckets)
                blocks.append(words.encode(frame.select(texts).to_series(), "scaled"))
            return sparse.hstack(blocks, format="csr", dtype=np.float32)
        inputs = np.zeros((frame.height, self.shape[0]), dtype=np.float32)
        start = numbers.shape[1]
        inputs[:, :start] = numbers
        for width, codes in categories:
            known = np.flatnonzero(codes >= 0)
            inputs[known, start + codes[known]] = 1.0
            start += width
        return torch.from_numpy(inputs)

    @property
    def _categories(self) -> list[Column]:
        return [column for column in self.columns if column.kind == "category"]

    def _numbers(self, frame: pl.DataFrame) -> NDArray[np.float32]:
        polars = require("polars", extra="tables")
        columns = [column for column in self.columns if column.kind != "category"]
        if not columns:
            return np.zeros((frame.height, 0), dtype=np.float32)
        mean, scale = np.array([(column.mean, column.scale) for column in columns]).T
        names = [column.name for column in columns]
        values = frame.select(polars.col(names).cast(polars.Float64)).to_numpy()  # NaN for empty cells
        with np.errstate(over="ignore"):
            standard: NDArray[np.float32] = np.nan_to_num((values - mean) / scale, nan=0.0).astype(np.float32)
        if not np.isfinite(standard).all():
            wrong = names[np.flatnonzero(~np.isfinite(standard).all(axis=0))[0]]
            raise UserError(f"the column {wrong!r} has numbers that are too large: leave such cells empty")
        return standard

    def batches(self, path: Path, batch_size: int) -> Iterator[Tensor]:
        """Inputs (B, F) of a table with the columns of the training file; others are ignored."""
        polars = require("polars", extra="tables")
        types = {"number": polars.Float64, "boolean": polars.Boolean, "category": polars.String}
        wanted = {column.name: types[column.kind] for column in self.columns}
        wanted |= dict.fromkeys(self.text, polars.String)
        pieces = frame_pieces(path, batch_size, columns=list(wanted), types=wanted, header=self.header)
        for frame in pieces:
            encoded = self.encode(frame)
            yield encoded if isinstance(encoded, Tensor) else torch.from_numpy(encoded.toarray())


def fit_standard_encoder(
    frame: pl.DataFrame, text: Sequence[str], buckets: int | None, *, header: bool
) -> StandardTableEncoder:
    """The encoder with the statistics of a table's rows, without uninformative columns."""
    filled = [name for name in frame.columns if name not in text and frame[name].count()]
    columns = [column for name in filled if (column := _fit_column(frame[name])).width]
    columns.sort(key=lambda column: column.kind == "category")  # numbers first, otherwise in their order
    buckets = TEXT_BUCKETS if buckets is None else buckets
    return StandardTableEncoder(tuple(columns), tuple(text), buckets, header)


def _fit_column(series: pl.Series) -> Column:
    """The encoding of a column, from its values in the training split; it must have at least one value."""
    kind = series.dtype
    if kind.is_numeric() or kind.base_type().__name__ == "Boolean":
        numbers = series.cast(require("polars", extra="tables").Float64).drop_nulls().to_numpy()
        numbers = numbers[~np.isnan(numbers)]
        if np.isinf(numbers).any():
            raise UserError(f"the column {series.name!r} has infinite numbers: leave such cells empty")
        with np.errstate(over="ignore"):  # `Column` refuses the infinite result of too large numbers
            mean, deviation = float(numbers.mean()), float(numbers.std())
        scale = float(column_scales(deviation, numbers.min(), numbers.max()))
        return Column(series.name, "number" if kind.is_numeric() else "boolean", mean, scale)
    if kind.base_type().__name__ not in ("String", "Categorical", "Enum", "Null"):
        raise UserError(
            f"the column {series.name!r} holds values of the type {kind.base_type().__name__}, neither "
            f"numbers nor text: leave it out with --drop {series.name!r}"
        )
    text = series.cast(require("polars", extra="tables").String)
    counts = text.drop_nulls().value_counts().rows()
    common = sorted((-number, value) for value, number in counts if number > 1)[:MAX_CATEGORIES]
    return Column(series.name, "category", values=tuple(sorted(value for _, value in common)))


def _codes(column: Column, series: pl.Series) -> NDArray[np.int64]:
    """The number of each row's value in the column, −1 for none of them."""
    polars = require("polars", extra="tables")
    codes = {value: number for number, value in enumerate(column.values)}
    text = series.cast(polars.String)
    numbers: NDArray[np.int64] = text.replace_strict(codes, default=-1, return_dtype=polars.Int64).to_numpy()
    return numbers


def _one_hot(width: int, codes: NDArray[np.int64]) -> csr_array:
    known = np.flatnonzero(codes >= 0)
    places = (np.ones(len(known), dtype=np.float32), (known, codes[known]))
    return require("scipy.sparse", extra="cli").csr_array(places, shape=(len(codes), width))
