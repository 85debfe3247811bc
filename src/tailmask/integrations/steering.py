"""Which passes move a criterion's ratios, as the callbacks of all trainers are told."""

from __future__ import annotations

from typing import Any, Literal, get_args

from tailmask.errors import nearest

__all__ = ["Statistics", "check_statistics"]

Statistics = Literal["training", "validation"]


def check_statistics(statistics: Any) -> None:
    """Refuse what names no pass.

    >>> check_statistics("testing")
    Traceback (most recent call last):
    ValueError: statistics is not 'testing': ...
    """
    if statistics not in get_args(Statistics):
        raise ValueError(
            f"statistics is not {statistics!r}: {nearest(str(statistics), get_args(Statistics))}"
        )
