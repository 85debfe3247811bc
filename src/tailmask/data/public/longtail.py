"""The exponential long tail of Cui et al. (2019), which the paper's constructed sets follow."""

from __future__ import annotations

from fractions import Fraction

__all__ = ["long_tail_counts"]


def long_tail_counts(largest: int, num_classes: int, rho: float) -> list[int]:
    """Samples of each class, n_c = ⌊n_max · ρ^(−c/(C−1))⌋, in exact arithmetic.

    Floating-point powers may be just below a whole number on one machine and not on another. Integers give
    the same counts everywhere.

    >>> long_tail_counts(5923, 10, 100)
    [5923, 3550, 2128, 1276, 764, 458, 274, 164, 98, 59]
    """
    if not rho >= 1:
        raise ValueError(f"rho must be 1 or more, largest class over smallest, got {rho}")
    if num_classes == 1:
        return [largest]
    steps, imbalance = num_classes - 1, Fraction(rho)
    # n ≤ n_max · ρ^(−c/steps)  ⇔  n^steps · ρ^c ≤ n_max^steps
    return [
        _largest_root(
            largest, steps, bound=largest**steps * imbalance.denominator**c, scale=imbalance.numerator**c
        )
        for c in range(num_classes)
    ]


def _largest_root(limit: int, power: int, *, bound: int, scale: int) -> int:
    low, high = 0, limit + 1  # the result is in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**power * scale <= bound else (low, middle)
    return low
