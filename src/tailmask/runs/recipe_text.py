"""A run's configuration as the text of a recipe; `load_recipe` reads it back."""

from __future__ import annotations

import json
from typing import Any

from tailmask._util.serialization import to_mapping
from tailmask.runs.config import RunConfig

__all__ = ["to_toml"]


def to_toml(config: RunConfig) -> str:
    """The resolved recipe as TOML; data, method and seed are comments.

    It includes the options of the method, after scaling by a budget.
    """
    lines = [f"# {config.data}, method {config.name} ({config.method}), seed {config.seed}"]
    if config.budget != 1.0:
        lines.append(f"# at budget {config.budget:g}")
    recipe = to_mapping(config.recipe)
    for word, options in config.method.options().items():
        recipe["method"][word] = recipe["method"].get(word, {}) | to_mapping(options)
    for section, table in recipe.items():
        lines += ["", f"[{section}]"]
        lines += [f"{name} = {_value(value)}" for name, value in table.items()]
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_value(part)}" for name, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(part) for part in value) + "]"
    return json.dumps(value, ensure_ascii=False)  # strings, numbers and booleans are the same in TOML
