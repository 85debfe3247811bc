"""Digests that tell whether two runs saw the same data."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["digest", "file_digest"]


def digest(*arrays: Tensor | NDArray[np.generic]) -> str:
    """SHA-256 of the shapes, types and bytes of some arrays.

    >>> digest(np.arange(3, dtype=np.uint8)) == digest(np.arange(3, dtype=np.int8))
    False
    """
    total = hashlib.sha256()
    for array in arrays:
        values = np.ascontiguousarray(array.numpy() if isinstance(array, Tensor) else array)
        total.update(f"{values.dtype.str}{values.shape}".encode())
        total.update(values.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
