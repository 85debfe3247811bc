"""Every module of `tailmask.data` lists in `__all__` what the others take from it."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import tailmask

SOURCE = Path(tailmask.__file__).parent


def imported() -> Iterator[tuple[str, str]]:
    """Each module of the package and a name that some file imports from it."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tailmask.data"):
                yield from ((str(node.module), alias.name) for alias in node.names)


def test_what_others_import_is_listed() -> None:
    pairs = set(imported())
    assert ("tailmask.data.labels", "Labels") in pairs
    missing = {
        (module, name) for module, name in pairs if name not in importlib.import_module(module).__all__
    }
    assert missing == set()
