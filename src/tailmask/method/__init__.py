"""The method grammar, and the objective that a method makes of a data set.

`parse` reads a name, `build_objective` makes of it what a training loop needs. Only the latter imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailmask.method.grammar import DEFAULT_METHODS, RECOMMENDED, Method, check_options, parse
from tailmask.method.parts import WORDS

if TYPE_CHECKING:
    from tailmask.method.building import build_objective as build_objective
    from tailmask.method.objective import Objective as Objective

__all__ = [
    "DEFAULT_METHODS",
    "RECOMMENDED",
    "WORDS",
    "Method",
    "Objective",
    "build_objective",
    "check_options",
    "parse",
]


def __getattr__(name: str) -> Any:
    if name in ("Objective", "build_objective"):
        from tailmask.method import building

        return getattr(building, name)
    raise AttributeError(f"module 'tailmask.method' has no attribute {name!r}")
