"""Hints at what a user may have meant."""

from __future__ import annotations

import linecache

import pytest

from tailmask._util.messages import explain, nearest


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


@pytest.mark.parametrize(
    ("source", "is_ours"),
    [
        ("raise ValueError('told')", True),
        ("raise ValueError('told') from None", True),
        ("try:\n  int('x')\nexcept ValueError as error:\n  raise ValueError('told') from error", True),
        ("try:\n  raise ValueError('told')\nfinally:\n  print(end='')", True),
        ("try:\n  raise ValueError('told')\nexcept ValueError:\n  raise", True),
        ("raise ValueError(\n  'told'\n)", True),
        ("import io\nwith io.StringIO():\n  raise ValueError('told')", True),
        ("int('x')", False),
        ("import torch\ntorch.zeros(2).numpy().reshape(3)", False),
        ("try:\n  int('x')\nfinally:\n  print(end='')", False),
        ("try:\n  int('x')\nexcept ValueError:\n  raise", False),
        ("a, b = [1]", False),
    ],
)
def test_only_what_a_raise_of_ours_says_is_told_to_users(source: str, is_ours: bool) -> None:
    linecache.cache["made_up.py"] = (len(source), None, source.splitlines(keepends=True), "made_up.py")

    def explained(module: str) -> str | None:
        try:
            exec(compile(source, "made_up.py", "exec"), {"__name__": module})
        except ValueError as error:
            return explain(error)
        raise AssertionError("nothing was raised")

    assert explained("tailmask.made_up") == ("told" if is_ours else None)
    assert explained("elsewhere") is None
