"""Rules that columns of all kinds share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "CONSTANT",
    "EMPTY_IN_TRAINING",
    "IDENTIFIER",
    "NO_VALUE_TWICE",
    "Form",
    "is_frequent",
    "is_identifier",
    "least_count",
]

# scaled: for linear models and networks. raw: for trees and boosting.
Form = Literal["scaled", "raw"]

# Reasons for leaving a column out.
CONSTANT = "it has the same value in all training rows"
EMPTY_IN_TRAINING = "all of its cells are empty in the training rows"
IDENTIFIER = "it looks like an ID: almost all values differ (to use it, name it in --features)"
NO_VALUE_TWICE = "none of its values occurs twice"

# In fewer rows than this, all numbers of a column may differ by chance.
LEAST_ROWS = 10

# A column of IDs has at least this share of different numbers: copies of rows repeat IDs.
DIFFERENT = 0.95

_IDENTIFIER = re.compile(r"(^|[\W_])(?i:id|key|index|number|nr|no|row|uuid)\W*$|[a-z]I[dD]$|^$")


def least_count(rows: int) -> int:
    """The minimum number of rows for a category or an indicator: 2 in small tables, 5 in others.

    >>> least_count(50), least_count(10_000)
    (2, 5)
    """
    return min(5, max(2, rows // 200))


def is_frequent(count: int, rows: int) -> bool:
    """True if this many rows justify an extra input: 0.5 % of the rows, and some more in small tables.

    >>> is_frequent(3, 100), is_frequent(4, 10_000)
    (True, False)
    """
    return count >= max(least_count(rows), rows / 200) and rows - count >= least_count(rows)


def is_identifier(series: pl.Series) -> bool:
    """True if a column of whole numbers is named like an ID, and almost all numbers differ."""
    if not series.dtype.is_numeric() or _IDENTIFIER.search(series.name) is None:
        return False
    known = series.drop_nulls()
    if len(known) < LEAST_ROWS or known.n_unique() < DIFFERENT * len(known):
        return False
    return series.dtype.is_integer() or bool((known.cast(float) % 1 == 0).all())
