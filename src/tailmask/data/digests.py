"""Digests that tell whether two runs saw the same data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["digest", "file_digest", "text_digest"]


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


def text_digest(texts: Sequence[str]) -> str:
    """SHA-256 of some texts in their order.

    >>> text_digest(["a", "bc"]) == text_digest(["ab", "c"])
    False
    """
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()
