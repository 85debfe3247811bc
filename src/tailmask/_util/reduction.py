"""What a loss makes of its values: the four reductions, for every loss of the package alike."""

from __future__ import annotations

from typing import Any, Literal, get_args

from tailmask._util.messages import nearest

__all__ = ["Reduction", "check_reduction"]

Reduction = Literal["mean", "batchmean", "sum", "none"]


def check_reduction(reduction: Any) -> None:
    """Refuse what is no reduction.

    >>> check_reduction("avg")
    Traceback (most recent call last):
    ValueError: reduction is not 'avg': choose from mean, batchmean, sum, none
    """
    if reduction not in get_args(Reduction):
        raise ValueError(f"reduction is not {reduction!r}: {nearest(str(reduction), get_args(Reduction))}")
