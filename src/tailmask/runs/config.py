"""The configuration of a run: data, method, recipe and seed, and a digest that identifies the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tailmask._util.messages import UserError
from tailmask._util.precision import Precision
from tailmask._util.serialization import from_mapping, to_mapping
from tailmask.data import DataOptions
from tailmask.methods import Method, parse
from tailmask.runs.recipe import Recipe

__all__ = ["RunConfig", "config_digest", "determined_by", "differences"]


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines a run's result except the content of the data.

    `method` and `recipe` are resolved: the recipe's options are in the method, and both are scaled to the
    number of epochs. `name` is the requested method. With several `folds` there is one model per fold.
    """

    data: str
    name: str
    method: Method
    recipe: Recipe
    options: DataOptions = field(default_factory=DataOptions)
    seed: int = 0
    budget: float = 1.0
    precision: Precision = "32"
    compiled: bool = False
    folds: int = 1
    notes: tuple[str, ...] = ()  # for the user; they do not affect the result

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UserError(f"the seed must be 0 or more, got {self.seed}")

    @property
    def is_plain(self) -> bool:
        """True for one network that is trained on the training split."""
        return self.folds == 1 and self.method.learner is None

    def to_json(self) -> dict[str, Any]:
        """The configuration in the form that run.json records."""
        return {
            "name": self.name,
            "method": str(self.method),
            "seed": self.seed,
            "budget": self.budget,
            "precision": self.precision,
            "compile": self.compiled,
            "folds": self.folds,
            "recipe": to_mapping(self.recipe),
        }

    def to_task(self) -> dict[str, Any]:
        """The whole configuration as plain JSON, for another process."""
        return self.to_json() | {
            "data": self.data,
            "options": self.options.to_json(),
            "notes": list(self.notes),
        }

    @classmethod
    def from_task(cls, task: Mapping[str, Any]) -> RunConfig:
        """The configuration that `to_task` wrote."""
        return cls(
            data=task["data"],
            name=task["name"],
            method=parse(task["method"]),
            recipe=from_mapping(Recipe, task["recipe"]),
            options=DataOptions.from_json(task["options"]),
            seed=task["seed"],
            budget=task["budget"],
            precision=task["precision"],
            compiled=task["compile"],
            folds=task["folds"],
            notes=tuple(task["notes"]),
        )


def determined_by(config: RunConfig) -> dict[str, Any]:
    """Everything that a run's result depends on, except the data and the number of processes.

    >>> from tailmask.runs import configure
    >>> determined_by(configure("digits", "plm+focal"))["method"]
    'plm:rate=0.05+focal:gamma=2'
    """
    values = config.to_json()
    recipe = {name: dict(table) for name, table in values["recipe"].items() if name != "method"}
    for limit in ("sparse_steps", "max_steps"):  # the number of epochs follows from them
        del recipe["schedule"][limit]
    names = ("method", "seed", "precision", "compile", "folds")
    return {"recipe": recipe, **{name: values[name] for name in names}}


def config_digest(determining: dict[str, Any]) -> str:
    """A short digest of everything that determines a run's result.

    >>> config_digest({"seed": 0}) == config_digest({"seed": 0}) != config_digest({"seed": 1})
    True
    """
    text = json.dumps(determining, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(there: dict[str, Any], asked: dict[str, Any], *, path: str = "") -> list[str]:
    """The differences between two configurations, field by field, as text.

    >>> differences({"seed": 0, "recipe": {"lr": 0.1}}, {"seed": 1, "recipe": {"lr": 0.1}})
    ['seed (0 there, 1 asked for)']
    >>> differences({"file": "a.csv", "sha256": "1f", "rows": "3b"}, {"file": "a.csv", "sha256": "2e"})
    ['the contents of a.csv']
    """
    if (
        "file" in there
        and there.get("file") == asked.get("file")
        and there.get("sha256") != asked.get("sha256")
    ):
        return [f"the contents of {there['file']}"]  # other contents explain the other differences
    found: list[str] = []
    for name in sorted(there.keys() | asked.keys()):
        old, new = there.get(name), asked.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, path=f"{path}{name}.")
        elif old != new:
            found.append(f"{path}{name} ({_short(old)} there, {_short(new)} asked for)")
    return list(dict.fromkeys(found))


def _short(value: Any) -> str:
    if value in (None, []):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
