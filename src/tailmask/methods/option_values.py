"""Option values as text: typed reading, and canonical printing as its inverse."""

from __future__ import annotations

import typing
from typing import Any, Literal

from tailmask._util.messages import UserError, nearest
from tailmask._util.registry import DeclaredOption, Word

__all__ = ["checked", "read_option", "write_value"]


def read_option(word: Word, text: str) -> tuple[str, Any]:
    """Name and value of an option such as `rate=0.05`, checked against the word's declaration."""
    name, separator, value = (piece.strip() for piece in text.partition("="))
    option = _declared(word, name)
    if not separator:
        example = f"{word.name}:{name}={_example(option.kind)}"
        raise UserError(f"the option {name!r} of {word.name!r} needs a value, as in {example}")
    return name, _read(word, option, value)


def checked(word: Word, name: str, value: Any) -> Any:
    """A value from a TOML table, checked in the same way as one from a method's name."""
    option = _declared(word, name)
    if typing.get_origin(option.kind) is tuple and isinstance(value, list):
        value = "..".join(str(bound) for bound in value)
    return _read(word, option, write_value(value))


def write_value(value: Any) -> str:
    """The text of a value in a method's name.

    >>> [write_value(value) for value in (2.0, 0.05, True, (0.0, 1.0), "mean")]
    ['2', '0.05', 'true', '0..1', 'mean']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "..".join(write_value(bound) for bound in value)
    if isinstance(value, float):
        return repr(value).removesuffix(".0").replace("e+", "e")  # a plus would begin the next word
    return str(value)


def _declared(word: Word, name: str) -> DeclaredOption:
    options = word.options
    if name not in options:
        hint = nearest(name, options) if options else "it has none"
        raise UserError(f"{word.name!r} has no option {name!r}: {hint}")
    return options[name]


def _read(word: Word, option: DeclaredOption, text: str) -> Any:
    label, kind = f"{word.name}:{option.name}", option.kind
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if text not in choices:
            raise UserError(f"{label} cannot be {text!r}: {nearest(text, choices)}")
        return text
    try:
        value = _typed(kind, text)
    except (KeyError, ValueError):
        raise UserError(f"{label} must be {_describe(kind)}, got {text!r}") from None
    problem = option.option.problem(value)
    if problem is not None:
        raise UserError(f"{label} must be {problem}, got {write_value(value)}")
    return value


def _typed(kind: Any, text: str) -> Any:
    if kind is bool:
        return {"true": True, "false": False}[text.lower()]
    if typing.get_origin(kind) is tuple:
        low, _, high = text.partition("..")
        return _finite(low), _finite(high)
    return _finite(text) if kind is float else int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not abs(number) < float("inf"):
        raise ValueError(text)
    return number


def _describe(kind: Any) -> str:
    if kind is bool:
        return "true or false"
    if kind is int:
        return "a whole number"
    return "two numbers, as in 0..1" if typing.get_origin(kind) is tuple else "a number"


def _example(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return str(typing.get_args(kind)[0])
    if kind is bool:
        return "true"
    return {int: "10", float: "0.5"}.get(kind, "0..1")
