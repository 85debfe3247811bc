"""Dataclasses from plain mappings, such as those read from TOML; names and types are checked."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from tailmask._util.messages import UserError, nearest

__all__ = ["from_mapping", "to_mapping"]

T = TypeVar("T")


def from_mapping(kind: type[T], mapping: Mapping[str, Any], *, path: str = "") -> T:
    """An instance of the dataclass `kind` with the fields of `mapping`; nested tables become dataclasses.

    >>> @dataclasses.dataclass
    ... class Optimizer:
    ...     lr: float
    >>> from_mapping(Optimizer, {"lr": 1})
    Optimizer(lr=1.0)
    >>> from_mapping(Optimizer, {"lrr": 1}, path="optimizer.")
    Traceback (most recent call last):
    tailmask._util.messages.UserError: unknown field 'optimizer.lrr': did you mean 'optimizer.lr'?
    """
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(typing.cast(Any, kind))]
    for name in mapping:
        if name not in names:
            hint = nearest(path + name, [path + known for known in names])
            raise UserError(f"unknown field {path + name!r}: {hint}")
    values = {name: _convert(hints[name], value, path + name) for name, value in mapping.items()}
    for field in dataclasses.fields(typing.cast(Any, kind)):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in values:
            raise UserError(f"the field {path + field.name!r} is missing")
    return kind(**values)


def to_mapping(value: Any) -> Any:
    """A dataclass as plain JSON values; tuples become lists.

    >>> @dataclasses.dataclass
    ... class Model:
    ...     hidden: tuple[int, ...]
    >>> to_mapping(Model((8, 4)))
    {'hidden': [8, 4]}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_mapping(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: to_mapping(part) for key, part in value.items()}
    return [to_mapping(part) for part in value] if isinstance(value, tuple | list) else value


def _convert(kind: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(kind)
    if origin is types.UnionType:  # an optional field
        (inner,) = (each for each in typing.get_args(kind) if each is not types.NoneType)
        return None if value is None else _convert(inner, value, path)
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise UserError(f"the field {path!r} must be a table of fields, got {value!r}")
        return from_mapping(typing.cast(type[Any], kind), value, path=f"{path}.")
    if origin is Literal:
        if value not in typing.get_args(kind):
            raise UserError(f"{path} cannot be {value!r}: {nearest(str(value), typing.get_args(kind))}")
        return value
    if origin is tuple:
        (part, _) = typing.get_args(kind)
        if not isinstance(value, list | tuple):
            raise UserError(f"the field {path!r} must be a list such as [1, 2], got {value!r}")
        return tuple(_convert(part, element, path) for element in value)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise UserError(f"the field {path!r} must be a table, got {value!r}")
        return dict(value)
    return _scalar(kind, value, path)


def _scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
    if type(value) is not kind:
        described = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}[kind]
        raise UserError(f"the field {path!r} must be {described}, got {value!r}")
    if kind is float and not math.isfinite(value):
        raise UserError(f"the values of {path!r} must be finite numbers, got {value}")
    return value
