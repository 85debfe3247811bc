"""Doctests as code on the API page: Markdown would take `>>>` for three quotations in one another."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Fences every doctest of a docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute that is read."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"(?m)^>>> (?:.+\n?)+",
                lambda match: f"```pycon\n{match[0].rstrip()}\n```\n",
                obj.docstring.value,
            )
