"""Option values as text: typed reading and canonical printing, the inverse of each other."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal, Union

from tailmask.errors import UserError, nearest

__all__ = ["checked", "option_types", "read_option", "write_value"]


def option_types(part: type[object]) -> dict[str, Any]:
    """The options of a word with their types, None left out of the unions.

    >>> from tailmask.method.parts import Focal
    >>> option_types(Focal)
    {'gamma': <class 'float'>, 'alpha': <class 'float'>}
    """
    return {name: _without_none(hint) for name, hint in typing.get_type_hints(part).items()}


def read_option(word: str, part: type[object], text: str) -> tuple[str, Any]:
    """Name and value of an option such as `rate=0.05`, checked against the word's fields."""
    name, separator, value = (piece.strip() for piece in text.partition("="))
    kind = _kind(word, part, name)
    if not separator:
        raise UserError(
            f"the option {name!r} of {word!r} needs a value, as in {word}:{name}={_example(kind)}"
        )
    return name, _read(f"{word}:{name}", kind, value)


def checked(word: str, part: type[object], name: str, value: Any) -> Any:
    """A value from a TOML table, checked in the same way as one from a method's name."""
    kind = _kind(word, part, name)
    if typing.get_origin(kind) is tuple and isinstance(value, list):
        value = "..".join(str(bound) for bound in value)
    return _read(f"{word}:{name}", kind, write_value(value))


def write_value(value: Any) -> str:
    """A value as it stands in a method's name.

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


def _kind(word: str, part: type[object], name: str) -> Any:
    kinds = option_types(part)
    if name not in kinds:
        hint = nearest(name, kinds) if kinds else "it has none"
        raise UserError(f"{word!r} has no option {name!r}: {hint}")
    return kinds[name]


def _read(option: str, kind: Any, text: str) -> Any:
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if text not in choices:
            raise UserError(f"{option} cannot be {text!r}: {nearest(text, choices)}")
        return text
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if typing.get_origin(kind) is tuple:
            low, _, high = text.partition("..")
            return _finite(low), _finite(high)
        return _finite(text) if kind is float else int(text)
    except (KeyError, ValueError):
        raise UserError(f"{option} must be {_describe(kind)}, got {text!r}") from None


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


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (Union, types.UnionType):
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    return hint
