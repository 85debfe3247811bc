"""Every module lists in `__all__` what the others take from it."""

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
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tailmask."):
                yield from ((str(node.module), alias.name) for alias in node.names)


def test_what_others_import_is_listed() -> None:
    pairs = set(imported())
    assert ("tailmask.data.readers.table.label_columns", "Labels") in pairs
    assert {pair for pair in pairs if not is_listed(*pair)} == set()


def is_listed(module: str, name: str) -> bool:
    """Whether the name is public, or a module of its own."""
    is_module = (SOURCE.parent / module.replace(".", "/") / f"{name}.py").exists()
    is_package = (SOURCE.parent / module.replace(".", "/") / name / "__init__.py").exists()
    return is_module or is_package or name in importlib.import_module(module).__all__
