"""The inputs of a program on raw rows: names, values for given rows, and the matrices that encoders make."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tailmask.data.rows import Rows
from tailmask.inference.onnx.graph import Graph
from tailmask.learners.matrices import Array
from tailmask.learners.matrix.row_encoders import RowEncoder

__all__ = ["Encode", "Landmarks", "RowInputs", "drawn_from"]


class Landmarks(NamedTuple):
    """Values of one column of an encoder's matrix at which a model's outputs change."""

    encoder: RowEncoder
    column: int
    values: npt.NDArray[np.float32]


class Encode(Protocol):
    """Adds an encoder to the graph and returns its matrix (batch, width) in float32."""

    def __call__(self, encoder: RowEncoder) -> str: ...


class RowInputs(Protocol):
    """The inputs of a program."""

    @property
    def about(self) -> list[dict[str, Any]]:
        """The name of each input and what it holds, for the metadata."""
        ...

    def declare(self, graph: Graph) -> Encode:
        """Add the inputs to the graph; returns the function that adds encoders of these inputs."""
        ...

    def feed(self, rows: Rows) -> dict[str, Array]:
        """The inputs for some rows."""
        ...

    def drawn(self, count: int, landmarks: list[Landmarks], generator: np.random.Generator) -> Any:
        """Features of rows to check the program with: near landmarks, missing, extreme and unseen values."""
        ...


def drawn_from(pool: list[Any], count: int, generator: np.random.Generator) -> list[Any]:
    """Values drawn from a pool; the first draws take each value of the pool once.

    >>> sorted(drawn_from([1, 2, 3], 3, np.random.default_rng(0)))
    [1, 2, 3]
    """
    order = [generator.permutation(len(pool)) for _ in range(-(-count // len(pool)))]
    return [pool[place] for place in np.concatenate(order)[:count]]
