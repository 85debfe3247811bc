"""What the commands left in this folder, read for the overview and the documents."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from tailmask.comparison.comparison_result import Comparison
from tailmask.comparison.run_outputs import Decision

HERE = Path(__file__).parent
PLAIN: Decision = "default"
TUNED: Decision = "tuned thresholds"
SHIFTED: Decision = "prior shift"


def comparisons(folder: Path) -> dict[str, Comparison]:
    """The comparisons in a folder, by the names of their files."""
    return {
        path.stem: Comparison.from_json(json.loads(path.read_text(encoding="utf-8"))["comparison"])
        for path in sorted(folder.glob("*.json"))
    }


@functools.cache
def result(folder: str, item: str) -> dict[str, Any]:
    """All that a command left about a table, a figure or a comparison."""
    found: dict[str, Any] = json.loads((HERE / folder / f"{item}.json").read_text(encoding="utf-8"))
    return found


def reproduced(folder: str, item: str, columns: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """Some columns of a table that `tailmask reproduce` left, by row."""
    table = result(folder, item)["tables"][0]
    places = [table["columns"].index(name) for name in columns]
    return {row["label"]: [row["cells"][place] for place in places] for row in table["rows"]}


def changed_fields(setting: dict[str, Any]) -> list[str]:
    """What `--set` changed in the training of a setting, as it was typed."""
    return [f"`{field}`" for field in setting["fields"] if not field.startswith("evaluation.")]


def measured(found: dict[str, Comparison], methods: tuple[str, ...]) -> list[str]:
    """The methods that at least one comparison has."""
    return [method for method in methods if any(each.row(method, "f1") for each in found.values())]


def table_line(*cells: str) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"
