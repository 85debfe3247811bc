"""Rows with the same features, found by a hash of each row.

If a test row has a copy in training, its score says little about new data. So copies belong in one part.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import require
from tailmask.data.encoders.columns import is_identifier

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array

__all__ = [
    "are_coarse",
    "compared_columns",
    "copy_groups",
    "frame_keys",
    "groups_with_copies",
    "joined_groups",
    "num_copies",
    "row_keys",
]

# With fewer different rows than this, or than this share of all rows, the features are coarse: rows are then
# equal by chance, and not copies.
LEAST_DIFFERENT, LEAST_SHARE = 50, 0.2

# Copies are ignored if they would join a larger share of the rows into one group.
MOST_JOINED = 0.1

_ODD = np.uint64(0x9E3779B97F4A7C15)
_STEP = 2**18  # numbers hashed at a time: they fit the processor's cache


def row_keys(values: NDArray[Any] | csr_array) -> NDArray[np.uint64]:
    """A hash of each row (N, F), the same for dense and CSR rows. Missing values are equal to each other.

    >>> keys = row_keys(np.array([[0.0, 2.0], [np.nan, 1.0], [-0.0, 2.0], [np.nan, 1.0], [2.0, 0.0]]))
    >>> copy_groups(keys).tolist()
    [0, 1, 0, 1, 4]
    """
    number, width = values.shape
    weights = _mixed(np.arange(1, width + 1, dtype=np.uint64) * _ODD) | np.uint64(1)
    numbers = number * width if isinstance(values, np.ndarray) else len(values.data)
    step = max(1, _STEP * number // max(numbers, 1))
    keys = np.zeros(number, dtype=np.uint64)
    for start in range(0, number, step):
        piece = values[start : start + step]
        if isinstance(piece, np.ndarray):
            keys[start : start + step] = _mixed(_bits(piece)) @ weights
        else:
            sums = np.zeros(len(piece.data) + 1, dtype=np.uint64)
            np.cumsum(_mixed(_bits(piece.data)) * weights[piece.indices], out=sums[1:])
            keys[start : start + step] = np.diff(sums[piece.indptr])
    return keys


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """The bits of the numbers in float64. There is one zero, with no bits set, and one NaN."""
    numbers = values.astype(np.float64, order="C") + 0.0  # turns −0 into 0
    numbers[np.isnan(numbers)] = np.nan
    return numbers.view(np.uint64)


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The bits mixed over the whole word, one to one. Zero stays zero."""
    for shift in (32, 29):
        bits = (bits ^ (bits >> np.uint64(shift))) * _ODD
    return bits ^ (bits >> np.uint64(32))


def frame_keys(frame: pl.DataFrame, names: Sequence[str]) -> NDArray[np.uint64]:
    """A hash of each row of a table over some of its columns. 1 and 1.0 are the same.

    >>> import polars
    >>> frame = polars.DataFrame({"x": [1, None, 1], "k": ["a", "b", "a"], "other": [1, 2, 3]})
    >>> copy_groups(frame_keys(frame, ["x", "k"])).tolist()
    [0, 1, 0]
    """
    polars = require("polars", extra="tables")
    kinds = {name: frame.schema[name] for name in names}
    columns = [
        polars.col(name).cast(polars.Float64).fill_nan(None)
        if kind.is_numeric() or kind == polars.Boolean
        else polars.col(name).cast(polars.String)
        for name, kind in kinds.items()
        if not (kind.is_nested() or kind in (polars.Object, polars.Duration))
    ]
    if not columns:
        return np.arange(frame.height, dtype=np.uint64)
    keys: NDArray[np.uint64] = frame.select(columns).hash_rows().to_numpy()
    return keys


def compared_columns(frame: pl.DataFrame, names: Sequence[str], *, keep: Collection[str] = ()) -> list[str]:
    """The columns that copies of a row share: no IDs, and no words without a repeated value.

    IDs in `keep` are compared, because the user wants to learn from them.

    >>> import polars
    >>> frame = polars.DataFrame({"id": range(10), "x": [0, 1] * 5, "note": list("abcdefghij")})
    >>> compared_columns(frame, frame.columns)
    ['x']
    """
    polars = require("polars", extra="tables")
    words = (polars.String, polars.Categorical, polars.Enum)

    def differs_always(series: pl.Series) -> bool:
        known = series.drop_nulls()
        if series.dtype in words:
            return known.n_unique() == len(known)
        return series.name not in keep and is_identifier(series)

    return [name for name in names if not differs_always(frame[name])]


def copy_groups(keys: NDArray[Any]) -> NDArray[np.int64]:
    """The number of the first row with the same key, for each row. Copies have the same number."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    groups: NDArray[np.int64] = first[inverse]
    return groups


def num_copies(groups: NDArray[np.int64]) -> int:
    """The number of rows that repeat an earlier row, from the result of `copy_groups`.

    >>> num_copies(copy_groups(np.array([4, 7, 4, 4])))
    2
    """
    return int((groups != np.arange(len(groups))).sum())


def are_coarse(groups: NDArray[np.int64]) -> bool:
    """True if so few rows differ that equal rows are probably chance, not copies.

    >>> are_coarse(copy_groups(np.arange(300) // 3)), are_coarse(copy_groups(np.arange(300) % 27))
    (False, True)
    """
    return len(groups) - num_copies(groups) < max(LEAST_DIFFERENT, LEAST_SHARE * len(groups))


def joined_groups(groups: NDArray[np.int64], copies: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups that also keep copies together: if copies of a row are in several groups, these become one.

    If copies would join more than a tenth of all rows, the groups stay as they are.

    >>> groups, copies = np.repeat(np.arange(20), 2), np.arange(40)
    >>> copies[3] = 0
    >>> joined_groups(groups, copies)[:6].tolist()
    [0, 0, 0, 0, 1, 1]
    """
    sparse = require("scipy.sparse", extra="cli")
    number = len(groups)
    _, first = np.unique(groups, return_inverse=True)
    size = number + int(first.max()) + 1
    links = sparse.coo_array(
        (np.ones(2 * number), (np.tile(np.arange(number), 2), np.concatenate([copies, number + first]))),
        shape=(size, size),
    )
    labels = require("scipy.sparse.csgraph", extra="cli").connected_components(links, directed=False)[1]
    joined: NDArray[np.int64] = np.unique(labels[:number], return_inverse=True)[1]
    largest = np.bincount(joined).max()
    if largest > max(MOST_JOINED * number, np.bincount(first).max()):
        return groups
    return joined


def groups_with_copies(keys: NDArray[Any], groups: NDArray[Any] | None = None) -> NDArray[Any] | None:
    """Group numbers that keep groups and copies of a row together; None if there are neither.

    Copies are not kept together if rows are equal by chance.

    >>> groups_with_copies(np.arange(100) // 2)[:4].tolist(), groups_with_copies(np.arange(100))
    ([0, 0, 2, 2], None)
    """
    copies = copy_groups(keys)
    if not num_copies(copies) or are_coarse(copies):
        return groups
    return copies if groups is None else joined_groups(groups, copies)
