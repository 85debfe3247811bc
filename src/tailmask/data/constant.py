"""Which columns of numbers say nothing, as all of their numbers are the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["is_constant"]

# Numbers that differ by less than this share of their size do so by rounding.
ROUNDING = 64 * float(np.finfo(np.float64).eps)


def is_constant(low: ArrayLike, high: ArrayLike) -> NDArray[np.bool_]:
    """Whether columns whose numbers go from `low` to `high` are constant, but for rounding.

    Their deviation cannot tell: that of 0.1 throughout is not zero, but about 1e-17, as the mean is rounded.

    >>> is_constant([0.1, 0.1], [0.1, 0.2]).tolist()
    [True, False]
    """
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite ends are of no constant column
        constant: NDArray[np.bool_] = high - low <= ROUNDING * np.maximum(abs(low), abs(high))
    return constant
