"""Columns of numbers: squashed and as normal scores, so outliers don't flatten the other numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import UserError, require
from tailmask.data.encoders.columns import CONSTANT, EMPTY_IN_TRAINING, Form, is_frequent

if TYPE_CHECKING:
    import polars as pl

__all__ = ["LIMIT", "NumberColumn", "Scale", "as_float", "fit_number", "fit_scale", "scaled_names"]

# A scale keeps at most this many points of a column's distribution; none if the column has few values.
MAX_KNOTS, FEW_VALUES = 200, 10

# No scaled number is farther from 0 than this.
LIMIT = 3.0

# The spread is the distance between two quantiles: the first pair that differs.
_QUANTILES = ((0.25, 0.75), (0.05, 0.95), (0.01, 0.99), (0.0, 1.0))


@dataclass(frozen=True)
class Scale:
    """Numbers on two scales: squashed (from the median, over the spread, at most 3) and as normal scores.

    The squashed scale is linear where most numbers are, and flat beyond. Normal scores depend on ranks only,
    and are left out if a column has few different numbers. NaN becomes 0 on both.

    >>> scale = Scale(low=0.0, high=20.0, center=5.0, spread=5.0)
    >>> scale(np.array([5.0, 10.0, 1e9, np.nan])).round(2).tolist()
    [[0.0], [0.95], [3.0], [0.0]]
    """

    low: float
    high: float
    center: float
    spread: float
    knots: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, self.center, self.spread, *self.knots, *self.levels)
        if not all(map(math.isfinite, numbers)) or not self.spread > 0:
            raise ValueError("a scale must have finite numbers and a spread above 0")
        if len(self.knots) != len(self.levels) or any(
            low >= high for low, high in zip(self.knots, self.knots[1:], strict=False)
        ):
            raise ValueError("knots must increase, and each must have its level")

    @property
    def width(self) -> int:
        """Number of inputs."""
        return 2 if self.knots else 1

    def __call__(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Inputs (N, width)."""
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = (numbers - self.center) / self.spread
            squashed = np.clip(ratio, -1e100, 1e100)
            squashed /= np.hypot(1.0, squashed / LIMIT)
            scales = [squashed, *([np.interp(numbers, self.knots, self.levels)] if self.knots else [])]
        return np.nan_to_num(np.stack(scales, axis=1), nan=0.0)


def fit_scale(numbers: NDArray[np.float64]) -> Scale:
    """The scale of finite numbers; equal numbers share the middle of their ranks.

    >>> scale = fit_scale(np.array([0.0, 1, 2, 3, 1e9]))
    >>> scale.center, scale.spread, scale.width
    (2.0, 2.0, 1)
    """
    low, high = float(numbers.min()), float(numbers.max())
    ends = (np.quantile(numbers, pair, method="nearest") for pair in _QUANTILES)
    with np.errstate(over="ignore"):
        spread = min(next((float(b - a) for a, b in ends if a < b), 1.0), float(np.finfo(np.float64).max))
    center = float(np.quantile(numbers, 0.5, method="nearest"))
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) <= FEW_VALUES:
        return Scale(low, high, center, spread)
    ranks = (np.cumsum(counts) - counts / 2) / len(numbers)
    if len(values) > MAX_KNOTS:
        inner = np.searchsorted(ranks, np.linspace(0, 1, MAX_KNOTS)[1:-1])
        kept = np.unique([0, *inner.clip(max=len(values) - 1), len(values) - 1])
        values, ranks = values[kept], ranks[kept]
    levels = require("scipy.special", extra="cli").ndtri(ranks)
    return Scale(low, high, center, spread, tuple(values.tolist()), tuple(levels.tolist()))


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers or booleans, perhaps with an extra input for empty cells.

    `scaled`: the squashed number and the normal score, 0 for an empty cell. `raw`: the number, NaN for an
    empty cell.
    """

    name: str
    kind: Literal["number", "boolean"]
    scale: Scale
    marks_empty: bool

    def outputs(self, form: Form) -> list[str]:
        """The names of its inputs."""
        if form == "raw":
            return [self.name]
        return scaled_names(self.name, self.scale, marks_empty=self.marks_empty)

    def encode(self, series: pl.Series, form: Form) -> NDArray[np.float32]:
        """Inputs (N, number of outputs)."""
        numbers = as_float(series)
        if form == "raw":
            largest = float(np.finfo(np.float32).max)
            return numbers.clip(-largest, largest).astype(np.float32)[:, None]
        columns = [self.scale(numbers), *([np.isnan(numbers)[:, None]] if self.marks_empty else [])]
        return np.concatenate(columns, axis=1, dtype=np.float32, casting="unsafe")

    @property
    def detail(self) -> str:
        """The range and the median of the numbers in training."""
        if self.kind == "boolean":
            return ""
        return f"{self.scale.low:.4g} to {self.scale.high:.4g}, median {self.scale.center:.4g}"


def scaled_names(name: str, scale: Scale, *, marks_empty: bool) -> list[str]:
    """The names of a scale's inputs, and of the mark of empty cells.

    >>> scaled_names("age", Scale(0.0, 1.0, 0.5, 1.0), marks_empty=True)
    ['age', 'age is empty']
    """
    scores = [f"{name} (score)"] if scale.knots else []
    return [name, *scores, *([f"{name} is empty"] if marks_empty else [])]


def as_float(series: pl.Series) -> NDArray[np.float64]:
    """Numbers in float64, NaN for empty cells.

    >>> as_float(require("polars", extra="tables").Series([1, None])).tolist()
    [1.0, nan]
    """
    numbers = series.cast(require("polars", extra="tables").Float64).to_numpy()
    return np.array(numbers, dtype=np.float64)


def fit_number(series: pl.Series) -> NumberColumn | str:
    """The encoding of a column of numbers or booleans, or the reason to leave it out."""
    numbers = as_float(series)
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return EMPTY_IN_TRAINING
    if np.isinf(known).any():
        raise UserError(f"the column {series.name!r} has infinite numbers: leave such cells empty")
    scale, marks_empty = fit_scale(known), is_frequent(len(numbers) - len(known), len(numbers))
    if scale.low == scale.high and not marks_empty:
        return CONSTANT
    return NumberColumn(series.name, "number" if series.dtype.is_numeric() else "boolean", scale, marks_empty)
