"""Parts of dates from days since 1970-01-01, by arithmetic."""

from __future__ import annotations

import numpy as np

from tailmask.inference.onnx.graph import Graph

__all__ = ["calendar_part"]

# Years begin in March here, so a leap day is a year's last day. 0000-03-01 is this many days before 1970.
_BEFORE = 719468.0
# The days of 4, 100 and 400 years.
_FOUR, _CENTURY, _CYCLE = 1461.0, 36524.0, 146097.0


def calendar_part(graph: Graph, days: str, part: str) -> str:
    """The whole days, the year, the month, or the weekday (Monday is 1), in float64; NaN stays NaN."""

    def floor(value: str) -> str:
        return graph.op("Floor", value)

    def plus(value: str, other: str | float) -> str:
        return graph.op("Add", value, other if isinstance(other, str) else np.array(other))

    def over(value: str, divisor: float) -> str:
        return floor(graph.op("Div", value, np.array(divisor)))

    def times(value: str, factor: float) -> str:
        return graph.op("Mul", value, np.array(factor))

    whole = floor(days)
    if part == "days":
        return whole
    if part == "weekday":
        shifted = plus(whole, 3.0)
        return plus(plus(shifted, times(over(shifted, 7.0), -7.0)), 1.0)
    since = plus(whole, _BEFORE)
    cycle = over(since, _CYCLE)
    day = plus(since, times(cycle, -_CYCLE))  # in the cycle of 400 years: 0 to 146096
    leap_days = plus(plus(over(day, _FOUR - 1), times(over(day, _CENTURY), -1.0)), over(day, _CYCLE - 1))
    year = over(plus(day, times(leap_days, -1.0)), 365.0)  # in the cycle
    begin = plus(plus(times(year, 365.0), over(year, 4.0)), times(over(year, 100.0), -1.0))
    day = plus(day, times(begin, -1.0))  # in the year: 0 to 365
    month = over(plus(times(day, 5.0), 2.0), 153.0)  # 0 is March
    is_next = over(month, 10.0)  # 1 in January and February
    if part == "month":
        return plus(plus(month, 3.0), times(is_next, -12.0))
    return plus(plus(year, times(cycle, 400.0)), is_next)
