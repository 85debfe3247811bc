"""The divisors that standardise columns of numbers, even constant ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["column_scales"]

# Numbers that differ by less than this share of their size differ only by rounding.
_ROUNDING = 64 * float(np.finfo(np.float64).eps)


def column_scales(deviation: ArrayLike, low: ArrayLike, high: ArrayLike) -> NDArray[np.float64]:
    """The deviation of columns with numbers from `low` to `high`; for a constant one its size, 1 or more.

    The deviation does not show that a column is constant: if all values are 0.1, it is about 1e-17,
    because the mean is rounded. Divided by it, a different number in new rows would become huge.

    >>> column_scales([1e-17, 0.05], [0.1, 0.1], [0.1, 0.2]).tolist()
    [1.0, 0.05]
    """
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    size = np.maximum(abs(low), abs(high))
    with np.errstate(over="ignore", invalid="ignore"):  # infinite numbers are reported elsewhere
        is_constant = high - low <= _ROUNDING * size
    return np.where(is_constant, np.maximum(size, 1.0), deviation)
