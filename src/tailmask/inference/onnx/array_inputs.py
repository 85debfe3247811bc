"""Rows of numbers as the one input of a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tailmask._util.messages import UserError
from tailmask.data.rows import Rows
from tailmask.inference.onnx.graph import Graph
from tailmask.inference.onnx.row_inputs import Encode, Landmarks, drawn_from
from tailmask.learners.matrices import Array, is_sparse
from tailmask.learners.matrix.row_encoders import RawArrays, RowEncoder, ScaledArrays

__all__ = ["ArrayInputs"]

_NAME = "inputs"


@dataclass(frozen=True)
class ArrayInputs:
    """One input (batch, features) in float32; NaN is a missing value."""

    encoders: tuple[RowEncoder, ...]
    width: int
    names: tuple[str, ...] | None = None  # of the features

    def __post_init__(self) -> None:
        if not all(isinstance(each, ScaledArrays | RawArrays) for each in self.encoders):
            raise UserError(
                "the model learned from the words of texts, and no operators of ONNX split texts into the "
                "same words"
            )

    @property
    def about(self) -> list[dict[str, Any]]:
        """The one input, with the names of the features if there are any."""
        holds = f"the {self.width} features of each row (float32), NaN if missing"
        return [{"name": _NAME, "holds": holds, **({"features": self.names} if self.names else {})}]

    def declare(self, graph: Graph) -> Encode:
        """Add the input."""
        values = graph.input(_NAME, np.float32, self.width)
        return lambda encoder: _encoded(graph, encoder, values)

    def feed(self, rows: Rows) -> dict[str, Array]:
        """The features, dense."""
        dense = rows.features.toarray() if is_sparse(rows.features) else rows.features
        return {_NAME: np.asarray(dense, dtype=np.float32)}

    def drawn(
        self, count: int, landmarks: list[Landmarks], generator: np.random.Generator
    ) -> npt.NDArray[np.float32]:
        """Values near the means and the thresholds of each feature, zeros and missing values."""
        pools: list[list[Any]] = [[0.0, np.nan] for _ in range(self.width)]
        for each in landmarks:
            pools[each.column] += each.values.tolist()
        for encoder in self.encoders:
            if isinstance(encoder, ScaledArrays):
                mean = 0.0 if encoder.encoder.mean is None else encoder.encoder.mean
                scale = np.minimum(encoder.encoder.scale, 1e30)  # the scale of an empty feature is larger
                for steps in (-3, -1, 0, 0.5, 2):
                    for pool, value in zip(pools, (mean + steps * scale).tolist(), strict=True):
                        pool.append(value)
        columns = [drawn_from(pool, count, generator) for pool in pools]
        return np.array(columns, dtype=np.float32).reshape(self.width, count).T


def _encoded(graph: Graph, encoder: RowEncoder, values: str) -> str:
    """The matrix (batch, features): unchanged, standardised, or divided by the largest size."""
    if isinstance(encoder, RawArrays):
        return _filled(graph, values) if encoder.sparse else values
    assert isinstance(encoder, ScaledArrays)
    mean, scale = encoder.encoder.mean, encoder.encoder.scale
    wide = graph.cast(values, np.float64)
    if mean is None:
        scaled = graph.op("Mul", wide, 1.0 / scale)
    else:
        scaled = graph.op("Div", graph.op("Sub", wide, mean), scale)
    return _filled(graph, graph.cast(scaled, np.float32))


def _filled(graph: Graph, values: str) -> str:
    """The values with 0 for NaN."""
    return graph.op("Where", graph.op("IsNaN", values), np.zeros(1, np.float32), values)
