"""The help of `--method` and `--methods`: it lists the words of the registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tailmask.methods import method_help

__all__ = ["with_method_help"]

Command = TypeVar("Command", bound=Callable[..., Any])


def with_method_help(command: Command) -> Command:
    """The command, with METHOD_HELP in its docstring replaced by the form of a method and its words.

    >>> @with_method_help
    ... def learn(method):
    ...     "METHOD_HELP"
    >>> "focal" in learn.__doc__
    True
    """
    command.__doc__ = (command.__doc__ or "").replace("METHOD_HELP", method_help())
    return command
