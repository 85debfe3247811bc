"""The matrices that learners are fitted on: checks, dense chunks, and the prevalence of their labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tailmask._util.messages import require
from tailmask.data.rows import as_targets, is_sparse

__all__ = [
    "Array",
    "Matrix",
    "as_targets",
    "check_matrix",
    "dense_chunks",
    "is_sparse",
    "prior_logits",
]

Array: TypeAlias = npt.NDArray[Any]
Matrix: TypeAlias = Any  # float32 numpy (N, F), or scipy CSR (N, F)

# Chunks of dense rows have at most this many numbers.
_CHUNK_NUMBERS = 2**21


def check_matrix(matrix: Matrix, *, missing: bool, features: int | None = None) -> Matrix:
    """The matrix in float32: contiguous rows, or CSR with int32 indices.

    If `missing` is allowed, NaN marks a missing value in a dense matrix; a sparse one has none.

    >>> check_matrix(np.ones((2, 3)), missing=False).dtype
    dtype('float32')
    """
    if len(matrix.shape) != 2:
        raise ValueError(f"expected a matrix of rows and features, got the shape {tuple(matrix.shape)}")
    if features is not None and matrix.shape[1] != features:
        raise ValueError(f"the model was fitted on {features} features, but the rows have {matrix.shape[1]}")
    if is_sparse(matrix):
        matrix = require("scipy.sparse", extra="cli").csr_array(matrix, dtype=np.float32)
        if matrix.indices.dtype != np.int32 or matrix.indptr.dtype != np.int32:
            matrix = type(matrix)(
                (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)), matrix.shape
            )
        values, missing = matrix.data, False
    else:
        matrix = values = np.ascontiguousarray(matrix, dtype=np.float32)
    if not np.isfinite(values).all() and not (missing and not np.isinf(values).any()):
        allowed = "finite numbers or NaN" if missing else "finite numbers"
        raise ValueError(f"the features must be {allowed}: encode the rows first")
    return matrix


def prior_logits(targets: Array) -> npt.NDArray[np.float64]:
    """The logit of each class's prevalence, smoothed by half a positive and half a negative.

    >>> prior_logits(np.array([[1, 0, -1], [1, 1, -1]])).round(2).tolist()
    [1.61, 0.0, 0.0]
    """
    positives, negatives = (targets == 1).sum(0) + 0.5, (targets == 0).sum(0) + 0.5
    logits: npt.NDArray[np.float64] = np.log(positives) - np.log(negatives)
    return logits


def dense_chunks(matrix: Matrix, width: int) -> Iterator[tuple[slice, npt.NDArray[np.float32]]]:
    """Consecutive rows as dense chunks; a row needs `width` numbers.

    >>> [chunk.shape for _, chunk in dense_chunks(np.zeros((3, 2), dtype=np.float32), 2**20)]
    [(2, 2), (1, 2)]
    """
    size = max(1, _CHUNK_NUMBERS // max(1, width, matrix.shape[1]))
    for start in range(0, matrix.shape[0], size):
        rows = slice(start, min(start + size, matrix.shape[0]))
        chunk = matrix[rows]
        yield rows, (chunk.toarray() if is_sparse(chunk) else chunk)
