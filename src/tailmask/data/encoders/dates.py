"""Columns of dates and times: days since the first date, year, month, weekday and hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import require
from tailmask.data.encoders.columns import CONSTANT, Form, is_frequent
from tailmask.data.encoders.numbers import Scale, fit_scale, scaled_names

if TYPE_CHECKING:
    import polars as pl

__all__ = ["DateColumn", "Moments", "days_of", "fit_date", "read_moments"]

DatePart = Literal["year", "month", "weekday", "hour"]

# A column of text holds dates if this share of its filled cells can be read as dates or times.
MOSTLY = 0.95

# The number of cells to check first: most columns of text hold no dates.
LOOKED_AT = 100

_PERIODS = {"month": 12, "weekday": 7, "hour": 24}
_DATE = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})"
    r"|\d{1,2}[- ][A-Za-z]{3,9}[- ,]+\d{4}|[A-Za-z]{3,9} \d{1,2},? \d{4}"
)
_TIME = r"(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2}(?:\.\d+)?))?(?: ?(?P<half>[AaPp][Mm]))?"
_ZONE = r"(?: ?(?:Z|UTC|[-+]\d{2}:?\d{2}))?"
_PATTERN = rf"^\s*(?:(?P<date>{_DATE})(?:(?:T| +|, ?){_TIME}{_ZONE})?)\s*$"
_TIMES_ONLY = rf"^\s*{_TIME}{_ZONE}\s*$"


class Moments(NamedTuple):
    """Dates as days since 1970 and times as hours since midnight; NaN if a cell has none."""

    days: NDArray[np.float64]
    hours: NDArray[np.float64]
    dates: pl.Series

    def part(self, name: DatePart) -> NDArray[np.float64]:
        """One part of each date or time; Monday is 1."""
        if name == "hour":
            return self.hours
        numbers = getattr(self.dates.dt, name)().cast(float).to_numpy()
        return np.array(numbers, dtype=np.float64)


def read_moments(series: pl.Series, *, day_first: bool) -> Moments:
    """Dates and times in text: ISO 8601 and the common forms with digits or English months.

    Time zones are ignored: the hour is the one in the text.

    >>> polars = require("polars", extra="tables")
    >>> cells = polars.Series(["2024-01-31T06:30:00Z", "31.1.2024", "5 Jan 2024", "soon", "23:15"])
    >>> moments = read_moments(cells, day_first=True)
    >>> moments.days.tolist(), moments.hours.tolist()
    ([19753.0, 19753.0, 19727.0, nan, nan], [6.5, nan, nan, nan, 23.25])
    """
    polars = require("polars", extra="tables")
    cells = series.cast(polars.String).alias("text").to_frame()
    texts = cells["text"].unique()
    days, hours, dates = _parsed(texts, day_first=day_first)
    parsed = polars.DataFrame({"text": texts, "days": days, "hours": hours, "dates": dates})
    found = cells.join(parsed, on="text", how="left", nulls_equal=True, maintain_order="left")
    days, hours = (np.array(found[name].to_numpy(), dtype=np.float64) for name in ("days", "hours"))
    return Moments(days, hours, found["dates"])


def days_of(series: pl.Series) -> NDArray[np.float64]:
    """Dates with or without times, in text, as days since 1970 with fractions; NaN if there is no date.

    >>> polars = require("polars", extra="tables")
    >>> days_of(polars.Series(["2024-01-31T06:00", "31.1.2024", "soon"])).tolist()
    [19753.25, 19753.0, nan]
    """
    moments = read_moments(series, day_first=_is_day_first(series.drop_nulls().unique()))
    return moments.days + np.nan_to_num(moments.hours) / 24


def _parsed(text: pl.Series, *, day_first: bool) -> Moments:
    polars = require("polars", extra="tables")
    groups = text.str.extract_groups(_PATTERN).struct.unnest()
    times = text.str.extract_groups(_TIMES_ONLY).struct.unnest()
    date = groups["date"].str.replace_all("[/. ,]+", "-").str.replace("([A-Za-z]{3})[A-Za-z]*", "$1")
    forms = ["%d-%m-%Y", "%d-%m-%y"] if day_first else ["%m-%d-%Y", "%m-%d-%y"]
    iso, long, short = r"^\d{4}-", r"^\d{1,2}-\d{1,2}-\d{4}$", r"^\d{1,2}-\d{1,2}-\d{2}$"
    dates = polars.Series([None] * len(date), dtype=polars.Date)
    for shape, form in (
        (iso, "%Y-%m-%d"),
        (long, forms[0]),
        (short, forms[1]),
        (r"^\d{1,2}-[A-Za-z]", "%d-%b-%Y"),
        ("^[A-Za-z]", "%b-%d-%Y"),
    ):
        of_shape = date.str.contains(shape)
        if of_shape.any():
            dates = dates.zip_with(~of_shape.fill_null(value=False), date.str.to_date(form, strict=False))

    def number(name: str) -> NDArray[np.float64]:
        cells = groups[name].fill_null(times[name]).cast(polars.Float64)
        return np.array(cells.to_numpy(), dtype=np.float64)

    hour, half = number("h"), groups["half"].fill_null(times["half"]).str.to_lowercase()
    hour = np.where(half.is_not_null().to_numpy(), hour % 12, hour)
    hour = hour + 12 * (half == "pm").fill_null(value=False).to_numpy()
    hours = hour + number("m") / 60 + np.nan_to_num(number("s")) / 3600
    days = np.array(dates.cast(polars.Int32).cast(polars.Float64).to_numpy(), dtype=np.float64)
    return Moments(days, np.where(hours < 24, hours, np.nan), dates)


@dataclass(frozen=True)
class DateColumn:
    """A date, a time, or both.

    `scaled`: the day on its scales, and month, weekday and hour as points on a circle. `raw`: days since
    the first date in training, and each part as a number, NaN for an empty cell. Parts that are the same in
    all training rows are left out.
    """

    name: str
    day_first: bool
    days: Scale | None  # of days since 1970; None if all dates are the same, or there are only times
    parts: tuple[DatePart, ...]
    marks_empty: bool

    kind: ClassVar[Literal["date"]] = "date"

    @property
    def _cyclic(self) -> list[DatePart]:
        return [part for part in self.parts if part in _PERIODS]

    def outputs(self, form: Form) -> list[str]:
        """The names of its inputs."""
        name = f"{self.name} (days)"
        if form == "raw":
            days = [] if self.days is None else [name]
            return days + [f"{self.name} ({part})" for part in self.parts]
        days = [] if self.days is None else scaled_names(name, self.days, marks_empty=False)
        circles = [f"{self.name} ({way} of {part})" for part in self._cyclic for way in ("sine", "cosine")]
        return [*days, *circles, *([f"{self.name} is empty"] if self.marks_empty else [])]

    def encode(self, series: pl.Series, form: Form) -> NDArray[np.float32]:
        """Inputs (N, number of outputs)."""
        moments = read_moments(series, day_first=self.day_first)
        columns: list[NDArray[np.float64]] = []
        if form == "raw":
            columns += [] if self.days is None else [moments.days - self.days.low]
            columns += [moments.part(part) for part in self.parts]
        else:
            columns += [] if self.days is None else list(self.days(moments.days).T)
            for part in self._cyclic:
                angle = 2 * np.pi * moments.part(part) / _PERIODS[part]
                columns += [np.nan_to_num(np.sin(angle)), np.nan_to_num(np.cos(angle))]
            if self.marks_empty:
                columns.append(_is_empty(moments).astype(np.float64))
        return np.stack(columns, axis=1).astype(np.float32)

    @property
    def detail(self) -> str:
        """The first and the last date, and the parts that are used."""
        if self.days is None:
            return ", ".join(self.parts)
        first, last = (np.datetime64(int(day), "D") for day in (self.days.low, self.days.high))
        return f"{first} to {last}: days, {', '.join(self.parts)}"


def fit_date(series: pl.Series) -> DateColumn | str | None:
    """The encoding of a column of dates, or the reason to leave it out; None if it holds no dates."""
    polars = require("polars", extra="tables")
    text = series.cast(polars.String).str.strip_chars()
    known = text.filter(text.is_not_null() & (text != ""))
    some = known.head(LOOKED_AT)
    looks = some.str.contains(_PATTERN) | some.str.contains(_TIMES_ONLY)
    if not len(known) or looks.sum() < MOSTLY * len(some):
        return None
    day_first = _is_day_first(known.unique())
    moments = read_moments(text, day_first=day_first)
    empty = int(_is_empty(moments).sum())
    if len(text) - empty < MOSTLY * len(known):
        return None
    parts = tuple(part for part in get_args(DatePart) if _differs(moments.part(part)))
    days = moments.days[~np.isnan(moments.days)]
    scale = fit_scale(days) if _differs(moments.days) else None
    marks_empty = is_frequent(empty, len(text))
    if scale is None and not parts and not marks_empty:
        return CONSTANT
    return DateColumn(series.name, day_first, scale, parts, marks_empty)


def _is_day_first(texts: pl.Series) -> bool:
    """True if 1/2/2024 is in February: if other cells don't decide it, the separator does."""
    read = {first: int((~np.isnan(_parsed(texts, day_first=first).days)).sum()) for first in (True, False)}
    if read[True] != read[False]:
        return read[True] > read[False]
    return not texts.str.contains(r"^\d{1,2}/").any()  # with points and hyphens, the day is usually first


def _is_empty(moments: Moments) -> NDArray[np.bool_]:
    return np.isnan(moments.days) & np.isnan(moments.hours)


def _differs(numbers: NDArray[np.float64]) -> bool:
    known = numbers[~np.isnan(numbers)]
    return len(known) > 0 and bool(known.min() != known.max())
