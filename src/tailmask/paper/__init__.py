"""The paper's tables and figures: measured numbers beside the paper's.

`reproduce` trains the missing runs of a table or figure. Other comparisons live in `studies`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailmask.paper.published_numbers import load_paper as load_paper
    from tailmask.paper.reproduction import Reproduction as Reproduction
    from tailmask.paper.reproduction import plan_reproduction as plan_reproduction
    from tailmask.paper.reproduction import reproduce as reproduce
    from tailmask.paper.request import Request as Request

_HOMES = {
    "Reproduction": "reproduction",
    "Request": "request",
    "load_paper": "published_numbers",
    "plan_reproduction": "reproduction",
    "reproduce": "reproduction",
}

__all__ = ["Reproduction", "Request", "load_paper", "plan_reproduction", "reproduce"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"tailmask.paper.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'tailmask.paper' has no attribute {name!r}")
