"""Numbers in cells of text: marks for empty cells, and other reasons why a column is not numeric."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from tailmask._util.messages import require

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "PLAIN_NUMBERS",
    "as_numbers",
    "bare_cells",
    "is_mark",
    "near_numbers",
    "number_hint",
    "with_numbers",
]

# Marks that programs and people write into empty cells, in lower case.
MARKS = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "?", "-")

# If this share of a column's cells are numbers, the column was probably meant as numbers.
MOSTLY = 0.8

PLAIN_NUMBERS = "write 1.5 for 1,5, 1000 for 1,000 and 12 for 12%"

_NUMBER_OTHERWISE = r"^[-+]?(\d+([.,]\d+)?|\d{1,3}([,.' ]\d{3})+([.,]\d+)?)\s?%?$"

Cells = TypeVar("Cells", "pl.Series", "pl.Expr")


def bare_cells(cells: Cells) -> Cells:
    """Text in lower case without spaces around it; null for a mark of an empty cell.

    >>> bare_cells(require("polars", extra="tables").Series([" 1", "NA", "?", "Yes"])).to_list()
    ['1', None, None, 'yes']
    """
    return cells.str.strip_chars().str.to_lowercase().replace(dict.fromkeys(MARKS))


def is_mark(text: str) -> bool:
    """True if a text is a mark that programs and people write into empty cells.

    >>> is_mark(" NA"), is_mark("nay")
    (True, False)
    """
    return text.strip().lower() in MARKS


def as_numbers(cells: pl.Series) -> pl.Series:
    """Bare cells as numbers; null if a cell is not a number.

    >>> as_numbers(require("polars", extra="tables").Series(["+5", "-3", "1e2", "1,5"])).to_list()
    [5.0, -3.0, 100.0, None]
    """
    return cells.cast(require("polars", extra="tables").Float64, strict=False)


def number_hint(text: str) -> str:
    """Advice for a cell that should be a number and is not.

    >>> number_hint("many"), number_hint("1,5") == PLAIN_NUMBERS
    ('leave such cells empty', True)
    """
    return PLAIN_NUMBERS if re.fullmatch(_NUMBER_OTHERWISE, text.strip()) else "leave such cells empty"


def with_numbers(frame: pl.DataFrame, columns: Iterable[str], *, typed: bool = False) -> pl.DataFrame:
    """The table with its text columns as numbers, if they hold only numbers and marks of empty cells.

    A column with only such marks is empty, and so is a NaN. In a `typed` file such as Parquet, a text column
    with numbers and no marks stays text.

    >>> frame = require("polars", extra="tables").DataFrame({"age": ["3", "NA"], "city": ["Bern", "NA"]})
    >>> with_numbers(frame, ["age", "city"]).rows()
    [(3.0, 'Bern'), (None, 'NA')]
    """
    polars = require("polars", extra="tables")
    changed = []
    for series in frame.select(columns):
        if series.dtype.is_float():
            changed.append(series.fill_nan(None))
        elif series.dtype == polars.String:
            bare = bare_cells(series)
            numbers = as_numbers(bare)
            if not bare.count():
                changed.append(bare)
            elif numbers.count() == bare.count() and not (typed and bare.equals(series)):
                changed.append(numbers)
    return frame.with_columns(changed)


def near_numbers(series: pl.Series) -> str | None:
    """The reason why a text column with mostly numbers is not numeric, as the end of a sentence.

    >>> near_numbers(require("polars", extra="tables").Series(["1", "2", "3", "4", "unknown"]))
    "holds numbers in 80 % of its cells, but also 'unknown', so it is not read as a number: ..."
    """
    polars = require("polars", extra="tables")
    texts = series.cast(polars.String).str.strip_chars()
    texts = texts.filter(bare_cells(texts).is_not_null())
    is_number = texts.cast(polars.Float64, strict=False).is_not_null()
    otherwise = ~is_number & texts.str.contains(_NUMBER_OTHERWISE)
    words = texts.filter(~(is_number | otherwise))
    if len(texts) - len(words) < MOSTLY * len(texts):
        return None
    if len(words):
        return (
            f"holds numbers in {100 * (len(texts) - len(words)) // len(texts)} % of its cells, but also "
            f"{words[0][:40]!r}, so it is not read as a number: to change that, leave such cells empty"
        )
    if not otherwise.any():
        return None
    return (
        f"holds numbers such as {texts.filter(otherwise)[0]!r}, so it is not read as a number: "
        f"{PLAIN_NUMBERS}"
    )
