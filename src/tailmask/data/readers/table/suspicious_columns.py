"""Notes about the columns of a table: how they are used, and what is probably a mistake.

The rules are few and simple; docs/your-own-data.md lists them. A note never changes how a column is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tailmask._util.messages import listing
from tailmask.data.encoders.categories import CategoryColumn
from tailmask.data.encoders.columns import NO_VALUE_TWICE
from tailmask.data.encoders.numbers import NumberColumn, Scale
from tailmask.data.encoders.standard_table import Column, StandardTableEncoder
from tailmask.data.encoders.table import TableEncoder
from tailmask.data.images.on_disk import SUFFIXES
from tailmask.data.readers.table.column_summary import ColumnUse
from tailmask.data.readers.table.numerals import PLAIN_NUMBERS, near_numbers

if TYPE_CHECKING:
    import polars as pl

__all__ = ["IMAGES", "AnyTableEncoder", "column_notes", "holds_images"]

IMAGES = "looks like image files: call the column `path` to learn from them"

# If a note applies to more columns than this, one note names them all.
MOST_NOTES = 5

# An outlier is at least this far from the median: times the spread, and times the distance of the outer 1 %.
OUTLIER_SPREADS, OUTLIER_TAILS = 20, 3

# In fewer rows than this, all numbers may differ by chance.
LEAST_ROWS = 10

_IDENTIFIER = re.compile(r"(^|[\W_])(?i:id|key|index|number|nr|no|row|uuid)$|[a-z]I[dD]$")
_DATE = (
    r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4}))([T ].*)?$"
    r"|^\d{1,2}:\d{2}(:[\d.]+)?$"
)
_IMAGE = rf"(?i)\w({'|'.join(map(re.escape, SUFFIXES))})$"
_EMPTY = {
    "number": "taken as its median",
    "boolean": "taken as its median",
    "date": "taken as missing dates",
    "category": "taken as none of its values",
    "text": "taken as no words",
}
_EMPTY_STANDARD = {**_EMPTY, "number": "taken as its mean", "boolean": "taken as its mean"}

AnyTableEncoder: TypeAlias = TableEncoder | StandardTableEncoder


def column_notes(
    frame: pl.DataFrame, encoder: AnyTableEncoder, uses: Sequence[ColumnUse], *, constant: Sequence[str]
) -> list[str]:
    """Notes about the columns, one sentence each. The columns in `constant` have one value in training."""
    return [
        *_left_out(frame, uses),
        *_of_each(constant, "has the same value in all training rows, so nothing can be learned from it"),
        *_empty_cells(uses, encoder),
        *_outliers(frame, encoder),
        *_mistakes(frame, encoder, uses),
    ]


def _outliers(frame: pl.DataFrame, encoder: AnyTableEncoder) -> Iterator[str]:
    """Numbers so far from the others that they may be mistakes."""
    for column in encoder.columns:
        if isinstance(column, NumberColumn) and column.kind == "number":
            distance = abs(frame[column.name].cast(float) - column.scale.center)
            far = frame[column.name].filter(distance > _least_outlier(column.scale))
            if len(far):
                yield (
                    f"column {column.name!r} has {len(far)} outliers, such as {far[0]:.6g} (the median "
                    f"is {column.scale.center:.6g}): their effect is limited, but are they mistakes?"
                )


def _least_outlier(scale: Scale) -> float:
    """How far from the median a number must be to be an outlier."""
    tails = np.interp((-2.33, 2.33), scale.levels, scale.knots) if scale.knots else (scale.low, scale.high)
    tail = max(abs(float(end) - scale.center) for end in tails)
    return max(OUTLIER_SPREADS * scale.spread, OUTLIER_TAILS * tail)


def _left_out(frame: pl.DataFrame, uses: Sequence[ColumnUse]) -> Iterator[str]:
    unused = [use.name for use in uses if use.detail == NO_VALUE_TWICE]
    images = [name for name in unused if holds_images(frame[name])]
    others = [name for name in unused if name not in images]
    yield from _of_each(images, f"is left out: {NO_VALUE_TWICE}; it {IMAGES}")
    yield from _of_each(others, f"is left out: {NO_VALUE_TWICE}; if it is text, name it in --text")
    reasons = {use.detail: None for use in uses if use.use == "left out" and not use.by_choice}
    for reason in reasons:
        if reason != NO_VALUE_TWICE:
            yield from _of_each([use.name for use in uses if use.detail == reason], f"is left out: {reason}")


def _empty_cells(uses: Sequence[ColumnUse], encoder: AnyTableEncoder) -> Iterator[str]:
    for kind, taken in (_EMPTY if isinstance(encoder, TableEncoder) else _EMPTY_STANDARD).items():
        empty = {use.name: use.empty for use in uses if use.empty and use.use == kind}
        if len(empty) > MOST_NOTES:
            yield from _of_each(list(empty), f"has empty cells, which are {taken}")
        else:
            for name, number in empty.items():
                yield f"column {name!r} has {number} empty cells, which are {taken}"


def _mistakes(frame: pl.DataFrame, encoder: AnyTableEncoder, uses: Sequence[ColumnUse]) -> Iterator[str]:
    of_kind = {kind: [use.name for use in uses if use.use == kind] for kind in (*_EMPTY, "label")}
    prefixes = {prefix for name in of_kind["label"] if (prefix := _prefix(name))}
    alike = [
        name
        for name in (*of_kind["number"], *of_kind["boolean"])
        if _prefix(name) in prefixes and _is_binary(frame[name])
    ]
    yield from _of_each(
        alike,
        "is named like the labels and holds only 0 and 1, but is used as a feature: if it is a label, it may "
        "give the others away, so name it in --labels or --drop",
    )
    yield from _of_each(
        [name for name in of_kind["number"] if _tells_rows_apart(frame[name])],
        "has a different number in every row and is used as a feature: if it is an ID, name it in --drop",
    )
    unused = [use.name for use in uses if use.detail == NO_VALUE_TWICE]
    dates = [name for name in (*of_kind["category"], *unused) if _holds_dates(frame[name])]
    yield from _of_each(
        dates,
        "holds dates or times, but is used as a category: write them as numbers, or name it in --drop",
    )
    near = {
        name: what
        for name in (*of_kind["category"], *unused)
        if name not in dates and (what := near_numbers(frame[name])) is not None
    }
    if len(near) > MOST_NOTES:
        sentence = "mostly holds numbers, but is not read as a number: leave cells with words empty, and"
        yield from _of_each(list(near), f"{sentence} {PLAIN_NUMBERS}")
    else:
        yield from (f"column {name!r} {what}" for name, what in near.items())
    images = [name for name in of_kind["category"] if holds_images(frame[name])]
    yield from _of_each(images, IMAGES)
    rare = [
        column.name
        for column in encoder.columns
        if isinstance(column, Column | CategoryColumn)
        and column.kind == "category"
        and column.name not in (*dates, *near, *images)
        and _is_mostly_rare(frame[column.name], column)
    ]
    yield from _of_each(
        rare, "is used as a category, but most of its values are too rare: if it is text, name it in --text"
    )


def _of_each(names: Sequence[str], sentence: str) -> Iterator[str]:
    """One sentence per column, or one sentence for all if there are many."""
    if len(names) > MOST_NOTES:
        yield f"each of {len(names)} columns ({listing(names)}) {sentence}"
    else:
        yield from (f"column {name!r} {sentence}" for name in names)


def _prefix(name: str) -> str:
    """A name up to its first separator; '' if it has none."""
    found = re.match(r".*?[^\W_][\W_]", name)
    return found.group() if found else ""


def _is_binary(series: pl.Series) -> bool:
    return set(series.drop_nulls().unique().cast(float).to_list()) <= {0.0, 1.0}


def _tells_rows_apart(series: pl.Series) -> bool:
    """True if all numbers differ, and the column is named like an ID or counts 1, 2, 3 …"""
    numbers = series.drop_nulls()
    if len(numbers) < LEAST_ROWS:
        return False
    suspect = _IDENTIFIER.search(series.name) is not None
    if not suspect:
        low, high = numbers.min(), numbers.max()
        suspect = isinstance(low, int) and isinstance(high, int) and high - low == len(numbers) - 1
    return suspect and numbers.n_unique() == len(numbers)


def _holds_dates(series: pl.Series) -> bool:
    texts = series.drop_nulls().cast(str)
    return len(texts) > 0 and bool(texts.str.contains(_DATE).all())


def holds_images(series: pl.Series) -> bool:
    """True if all cells of a column look like names of image files.

    >>> import polars
    >>> holds_images(polars.Series(["cats/1.JPG", None, "2.png"]))
    True
    """
    texts = series.drop_nulls().cast(str)
    return len(texts) > 0 and bool(texts.str.contains(_IMAGE).all())


def _is_mostly_rare(series: pl.Series, column: Column | CategoryColumn) -> bool:
    return 2 * int(series.cast(str).is_in(column.values).sum()) < series.count()
