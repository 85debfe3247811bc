"""Tables of results as text: numbers of any size can be read."""

from __future__ import annotations

from typing import Any

import pytest

from tailmask.report.result_markdown import rows_of


def cell_text(mean: float | None, std: float | None = None, *, digits: int) -> str:
    cell = {"paper": None, "mean": mean, "std": std, "n": 0}
    table: dict[str, Any] = {"label": "Class", "columns": ["r"], "digits": digits}
    return rows_of(table | {"rows": [{"label": "a", "cells": [cell]}]})[1][-1]


@pytest.mark.parametrize(
    ("value", "digits"),
    [(2.390860000000002e-07, 3), (0.0014962, 3), (9.4e-14, 3), (5068.32338, 3), (1.06864999e13, 3)],
)
def test_very_small_and_very_large_numbers_keep_significant_digits(value: float, digits: int) -> None:
    text = cell_text(value, digits=digits)
    assert float(text) == pytest.approx(value, rel=1e-3)
    assert len(text) <= 9


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.675128, 3, "0.675"),
        (0.0, 3, "0.000"),
        (-0.004, 2, "0.00"),
        (98.8, 2, "98.80"),
        (0.004, 2, "0.00"),
        (0.0111, 1, "0.0"),
        (123456.0, 0, "123456"),
    ],
)
def test_other_numbers_have_the_decimals_of_their_table(value: float, digits: int, text: str) -> None:
    assert cell_text(value, digits=digits) == text


def test_a_spread_is_as_exact_as_its_mean() -> None:
    assert cell_text(84.4, 0.0049, digits=2) == "84.40 ± 0.00"
    assert cell_text(1.0686e13, 2.5e12, digits=3) == "1.069e+13 ± 2.5e+12"
