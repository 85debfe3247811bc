"""The method grammar, and the training objective of a method.

`parse` reads a name, and `build_objective` builds from it what a training loop needs. The words are declared
in the files of `losses`, `sampling` and here, and `find_words` lists them without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailmask._util.registry import find_words
from tailmask.methods.grammar import (
    DEFAULT_METHODS,
    RECOMMENDED,
    TABLE_METHODS,
    Method,
    MethodPart,
    check_options,
    method_help,
    parse,
)

if TYPE_CHECKING:
    from tailmask.methods.objective import Objective as Objective
    from tailmask.methods.objective_building import build_objective as build_objective

__all__ = [
    "DEFAULT_METHODS",
    "RECOMMENDED",
    "TABLE_METHODS",
    "Method",
    "MethodPart",
    "Objective",
    "build_objective",
    "check_options",
    "find_words",
    "method_help",
    "parse",
]


def __getattr__(name: str) -> Any:
    if name in ("Objective", "build_objective"):
        from tailmask.methods import objective_building

        return getattr(objective_building, name)
    raise AttributeError(f"module 'tailmask.methods' has no attribute {name!r}")
