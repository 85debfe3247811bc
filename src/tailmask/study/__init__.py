"""Studies: many runs planned, made and compared, and every table and figure of the paper.

`compare` answers whether a method helps on some data; `reproduce` makes a table or figure of the paper beside
the paper's numbers. Both train what is not there yet, in worker processes, and go on where they were stopped.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailmask.study.comparing import Study as Study
    from tailmask.study.comparing import compare as compare
    from tailmask.study.comparing import plan_comparison as plan_comparison
    from tailmask.study.markdown import render_markdown as render_markdown
    from tailmask.study.paper import load_paper as load_paper
    from tailmask.study.reproduction import Reproduction as Reproduction
    from tailmask.study.reproduction import plan_reproduction as plan_reproduction
    from tailmask.study.reproduction import reproduce as reproduce
    from tailmask.study.request import Request as Request

__all__ = [
    "Reproduction",
    "Request",
    "Study",
    "compare",
    "load_paper",
    "plan_comparison",
    "plan_reproduction",
    "render_markdown",
    "reproduce",
]

_HOMES = {
    "Reproduction": "reproduction",
    "Request": "request",
    "Study": "comparing",
    "compare": "comparing",
    "load_paper": "paper",
    "plan_comparison": "comparing",
    "plan_reproduction": "reproduction",
    "render_markdown": "markdown",
    "reproduce": "reproduction",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"tailmask.study.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'tailmask.study' has no attribute {name!r}")
