"""What numbers are divided by, also where all of a column are the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["column_scales"]

# Numbers that differ by less than this share of their size do so by rounding.
_ROUNDING = 64 * float(np.finfo(np.float64).eps)


def column_scales(deviation: ArrayLike, low: ArrayLike, high: ArrayLike) -> NDArray[np.float64]:
    """The deviation of columns whose numbers go from `low` to `high`; of a constant one its size, 1 or more.

    Their deviation cannot tell constant columns: that of 0.1 throughout is about 1e-17, as the mean is
    rounded, and divided by it another number in new rows would become huge.

    >>> column_scales([1e-17, 0.05], [0.1, 0.1], [0.1, 0.2]).tolist()
    [1.0, 0.05]
    """
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    size = np.maximum(abs(low), abs(high))
    with np.errstate(over="ignore", invalid="ignore"):  # of columns with infinite numbers others tell
        is_constant = high - low <= _ROUNDING * size
    return np.where(is_constant, np.maximum(size, 1.0), deviation)
