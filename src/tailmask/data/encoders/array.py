"""Rows of numbers: standardised if they are dense, scaled if they are sparse."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.data.copied_rows import row_keys
from tailmask.data.encoders.encoder import Encoder
from tailmask.data.encoders.scales import column_scales
from tailmask.data.giveaway_features import FeatureSample, give_away_notes, sampled
from tailmask.data.options import DataOptions
from tailmask.data.readers.table.label_columns import Labels
from tailmask.data.row_formats import array_pieces

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["ArrayEncoder", "ArrayRows"]

# The scale of a feature that is empty in training: any number becomes 0, like a missing value.
_NEVER_SEEN = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class ArrayRows:
    """Features (N, F) before encoding: a NumPy array, NaN for missing values, or CSR."""

    values: NDArray[Any] | csr_array
    key: str = "X"  # the name of the array in an .npz file
    names: tuple[str, ...] | None = None  # the names of the features in an ARFF file

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def keys(self, like: object = None) -> NDArray[np.uint64]:
        """One value per row, the same for rows with the same features."""
        return row_keys(self.values)

    def fit(self, index: NDArray[np.int64], options: DataOptions) -> ArrayEncoder:
        """The encoder with the statistics of the rows in `index`."""
        if isinstance(self.values, np.ndarray):
            mean, scale = _moments(self.values, index)
        else:
            largest = abs(self.values[index]).nanmax(axis=0)
            sizes = np.asarray(largest.toarray(), dtype=np.float64).reshape(-1)
            mean, scale = None, np.where(sizes > 0, sizes, 1.0)
        for each in (mean, scale):
            if each is not None:
                _check_size(each, self.names)
        return ArrayEncoder(self.values.shape[1], mean, scale, key=self.key, names=self.names)

    def encode(
        self, encoder: ArrayEncoder, index: NDArray[np.int64], *, training: bool = False
    ) -> Tensor | csr_array:
        """The inputs of the rows in `index`; they are the same in training."""
        if self.names != encoder.names:
            raise UserError(
                "the training and the test file must have the same features in the same order: change one of "
                "the two files"
            )
        return encoder.encode(self.values[index])

    def notes(self, encoder: ArrayEncoder, index: NDArray[np.int64], labels: Labels) -> list[str]:
        """Notes on the number of missing values, and on features that give a label away."""
        values = self.values if isinstance(self.values, np.ndarray) else self.values.data
        missing = int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0
        stand_in = "zero" if encoder.mean is None else "the mean of their feature"
        notes = [f"{missing} values are missing and taken as {stand_in}"] if missing else []
        dense = isinstance(self.values, np.ndarray)
        rows = sampled(index, self.values.shape[1] if dense else 1)
        names = self.names or tuple(f"feature {number}" for number in range(self.values.shape[1]))
        features = self.values[rows].astype(np.float64) if dense else self.values[rows]
        return [*notes, *give_away_notes(FeatureSample(names, features), labels.take(rows), labels.classes)]


def _check_size(values: NDArray[Any], names: tuple[str, ...] | None = None) -> None:
    """Raise an error for numbers beyond float32, with the feature's name if there are names."""
    finite = np.isfinite(values)
    if finite.all():
        return
    which = f" of {names[int(np.argwhere(~finite)[0, -1])]!r}" if names else ""
    raise UserError(f"numbers{which} are too large to learn from: scale them, or leave them out")


def _moments(
    values: NDArray[Any], index: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and scale of each feature over its known values, from a few rows at a time."""
    step = max(1, 2**22 // max(values.shape[1], 1))
    pieces = [index[start : start + step] for start in range(0, len(index), step)]
    count, total, squares = (np.zeros(values.shape[1]) for _ in range(3))
    low, high = (np.full(values.shape[1], end) for end in (np.inf, -np.inf))
    for piece in pieces:
        rows = values[piece]
        count += (~np.isnan(rows)).sum(axis=0)
        total += np.nansum(rows, axis=0, dtype=np.float64)
        low = np.fmin(low, np.fmin.reduce(rows, axis=0))
        high = np.fmax(high, np.fmax.reduce(rows, axis=0))
    mean = total / np.maximum(count, 1)
    with np.errstate(over="ignore", invalid="ignore"):  # `fit` refuses the infinite scale of huge numbers
        for piece in pieces:
            squares += np.nansum(np.square(values[piece] - mean), axis=0)
    low, high = (np.where(count > 0, end, 0.0) for end in (low, high))
    scale = column_scales(np.sqrt(squares / np.maximum(count, 1)), low, high)
    return mean, np.where(count > 0, scale, _NEVER_SEEN)


@dataclass(frozen=True, eq=False)
class ArrayEncoder(Encoder):
    """Standardised features if they are dense; sparse ones are divided by their largest absolute value.

    That division keeps zeros at zero and does not change indicators of words. A missing value becomes the
    mean, or zero if features are sparse.
    """

    num_features: int
    mean: NDArray[np.float64] | None  # None if the features are sparse
    scale: NDArray[np.float64]
    key: str = "X"
    names: tuple[str, ...] | None = None

    kind = "arrays"

    @property
    def shape(self) -> tuple[int, ...]:
        """One number per feature."""
        return (self.num_features,)

    def encode(self, values: NDArray[Any] | csr_array) -> Tensor | csr_array:
        """Inputs in float32: CSR if values and training rows are both sparse, else dense.

        The same numbers give the same inputs, dense or CSR.
        """
        if values.ndim != 2 or values.shape[1] != self.num_features:
            raise UserError(
                f"inputs must have {self.num_features} features per row, got shape {values.shape}"
            )
        if not isinstance(values, np.ndarray) and self.mean is None:
            with np.errstate(over="ignore"):
                scaled = values.multiply(1.0 / self.scale[None]).tocsr().astype(np.float32)
            scaled.data[np.isnan(scaled.data)] = 0.0
            _check_size(scaled.data)
            return scaled
        standard = np.empty(values.shape, dtype=np.float32)
        step = max(1, 2**22 // max(self.num_features, 1))
        for start in range(0, len(standard), step):  # in pieces: never all rows in float64 at once
            rows, piece = values[start : start + step], standard[start : start + step]
            dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
            with np.errstate(over="ignore"):
                if self.mean is None:
                    piece[:] = dense * (1.0 / self.scale)
                else:
                    piece[:] = (dense - self.mean) / self.scale
            piece[np.isnan(piece)] = 0.0
            _check_size(piece, self.names)
        return torch.from_numpy(standard)

    def to_json(self) -> dict[str, Any]:
        """The means, scales and names of the features, and the name of their array."""
        return {
            "kind": self.kind,
            "num_features": self.num_features,
            "mean": None if self.mean is None else self.mean.tolist(),
            "scale": self.scale.tolist(),
            "key": self.key,
            "names": None if self.names is None else list(self.names),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ArrayEncoder:
        """The encoder that `to_json` wrote; `Encoder.from_json` calls this for the kind `arrays`."""
        mean, names, num_features = value["mean"], value["names"], operator.index(value["num_features"])
        moments = [np.array(each, dtype=np.float64) for each in (mean, value["scale"]) if each is not None]
        if any(each.shape != (num_features,) or not np.isfinite(each).all() for each in moments):
            raise ValueError(f"mean and scale must be {num_features} numbers")
        return cls(
            num_features=num_features,
            mean=None if mean is None else moments[0],
            scale=moments[-1],
            key=str(value["key"]),
            names=None if names is None else tuple(str(name) for name in names),
        )

    def batches(self, path: Path, batch_size: int) -> Iterator[Tensor]:
        """Inputs (B, F) of an .npz or ARFF file."""
        for values in array_pieces(path, batch_size, key=self.key, names=self.names):
            encoded = self.encode(values)
            yield encoded if isinstance(encoded, Tensor) else torch.from_numpy(encoded.toarray())
