"""Hints at what a user may have meant."""

from __future__ import annotations

import pytest

from tailmask.errors import explain, nearest


@pytest.mark.parametrize(
    ("name", "choices", "hint"),
    [
        ("epcohs", ["epochs", "seed"], "did you mean 'epochs'?"),
        ("AGE", ["age", "income"], "did you mean 'age'?"),
        ("tg_*", ["x", "tag_a"], "did you mean 'tag_a'?"),
        ("X", ["x", "y"], "did you mean 'x'?"),
        ("nope", ["age", "income", "city"], "choose from age, income, city"),
        ("label", ["table", "colour"], "choose from table, colour"),
        ("sdg", ["sgd", "adam"], "did you mean 'sgd'?"),
    ],
)
def test_hints_share_something_real(name: str, choices: list[str], hint: str) -> None:
    assert nearest(name, choices) == hint


def test_an_error_that_nobody_raised_is_not_ours() -> None:
    assert explain(ValueError("x")) is None
