"""The four reductions, shared by all losses of the package."""

from __future__ import annotations

from typing import Any, Literal, get_args

from tailmask._util.messages import nearest

__all__ = ["Reduction", "check_reduction"]

Reduction = Literal["mean", "batchmean", "sum", "none"]


def check_reduction(reduction: Any) -> None:
    """Raise a ValueError if `reduction` is not one of the four.

    >>> check_reduction("avg")
    Traceback (most recent call last):
    ValueError: reduction cannot be 'avg': choose from mean, batchmean, sum, none
    """
    if reduction not in get_args(Reduction):
        raise ValueError(f"reduction cannot be {reduction!r}: {nearest(str(reduction), get_args(Reduction))}")
