"""Lists or sets of tags as an estimator's y: one list per row, such as ["news", "sport"]."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

__all__ = ["Tags", "distinct_tags", "tag_lists"]

# The tags of each row; None if the row's labels are unknown.
Tags = Sequence[Collection[Any] | None]

_LISTS = (list, tuple, set, frozenset, np.ndarray)
_LABEL_WORDS = {"yes", "no", "true", "false", "0", "1", "-1", "0.0", "1.0", "-1.0", "nan", "none", "<na>", ""}


def tag_lists(y: Any) -> Tags | None:
    """The tags of each row, if y has a list or set of tags per row; else None.

    >>> tag_lists([["news", "sport"], [], {"news"}, None])
    [['news', 'sport'], [], {'news'}, None]
    >>> tag_lists([[0, 1], [1, 1]]), tag_lists([["yes", "no"]]), tag_lists(["news", "sport"])
    (None, None, None)
    """
    if hasattr(y, "toarray") or (isinstance(y, np.ndarray) and (y.ndim != 1 or y.dtype.kind != "O")):
        return None
    if hasattr(y, "columns"):
        if len(y.columns) != 1:
            return None
        y = y[y.columns[0]]
    if not isinstance(y, list | tuple | np.ndarray) and not hasattr(y, "to_list"):
        return None
    rows = y.to_list() if hasattr(y, "to_list") else list(y)
    rows = [None if row is None or (isinstance(row, float) and row != row) else row for row in rows]
    known = [row for row in rows if row is not None]
    if not any(isinstance(row, _LISTS) for row in known):
        return None
    for row in known:
        if not isinstance(row, _LISTS):
            raise ValueError(f"y must have a list of tags in each row, got {row!r} in one: write [{row!r}]")
    if not _is_matrix(known):
        return rows
    if isinstance(y, list | tuple):
        return None
    raise ValueError(
        "y has lists of numbers of one length: pass a column per label, as in np.stack(y), or sets"
    )


def distinct_tags(tags: Tags) -> np.ndarray:
    """All different tags, in order.

    >>> distinct_tags([["b", "a"], None, ["a"]]).tolist()
    ['a', 'b']
    """
    found = {tag for row in tags if row is not None for tag in row}
    if len({isinstance(tag, str) for tag in found}) > 1:
        raise ValueError("tags must be all texts or all numbers, got both: write the numbers as texts")
    return np.array(sorted(found))


def _is_matrix(rows: Sequence[Collection[Any]]) -> bool:
    """True if rows of one length hold numbers, or words for labels such as yes and no."""
    if any(isinstance(row, set | frozenset) for row in rows) or len({len(row) for row in rows}) > 1:
        return False
    cells = [cell for row in rows for cell in row]
    return all(not isinstance(cell, str) or cell.strip().lower() in _LABEL_WORDS for cell in cells)
