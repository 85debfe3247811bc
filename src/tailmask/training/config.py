"""What a run is: the data, the method, the recipe and the seed, and a digest that tells runs apart."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tailmask.data import NAMED, DataOptions
from tailmask.errors import UserError
from tailmask.masking.options import read_rate, read_warmup
from tailmask.method import Method, parse
from tailmask.method.parts import Masking
from tailmask.training.fields import to_mapping
from tailmask.training.recipe import Recipe, load_recipe, recipe_names

__all__ = ["Precision", "RunConfig", "configure", "default_recipe", "determined_by", "differences", "digest"]

Precision = Literal["32", "bf16"]

# Up to this λ a shorter budget raises it, so that λ · epochs, and with it how far ratios drift, stays.
SLOW_RATE = 0.01


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines a run's result but the data's content; made by `configure`.

    `method` and `recipe` are what was resolved: the recipe's options are in the method, and both are scaled
    to the budget. `name` is the method as it was asked for.
    """

    data: str
    name: str
    method: Method
    recipe: Recipe
    options: DataOptions = field(default_factory=DataOptions)
    seed: int = 0
    budget: float = 1.0
    precision: Precision = "32"
    compile: bool = False
    # `configure` with all arguments but the recipe, where the recipe is ours to choose.
    remake: Callable[..., RunConfig] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UserError(f"the seed must be 0 or more, got {self.seed}")

    def fitted(self, shape: Sequence[int]) -> RunConfig:
        """The configuration for samples of this shape: users' own images get another recipe than tables.

        >>> config = configure("mine.npz", "plm")
        >>> config.recipe.model.name, config.fitted((3, 32, 32)).recipe.model.name
        ('mlp', 'resnet32')
        """
        if self.remake is None or len(shape) != 3:
            return self
        return self.remake(recipe="images")

    def to_json(self) -> dict[str, Any]:
        """What a run folder records of the configuration."""
        recipe = to_mapping(self.recipe)
        return {
            "name": self.name,
            "method": str(self.method),
            "seed": self.seed,
            "budget": self.budget,
            "precision": self.precision,
            "compile": self.compile,
            "recipe": recipe,
        }


def configure(
    data: str,
    method: str = "plm",
    *,
    recipe: str | Recipe | None = None,
    seed: int = 0,
    budget: float = 1.0,
    epochs: int | None = None,
    fields: Sequence[str] = (),
    options: DataOptions | None = None,
    precision: Precision = "32",
    compile: bool = False,
) -> RunConfig:
    """The configuration of a run.

    Args:
        data: Name or path of the data.
        method: Name of the method, such as "plm+focal".
        recipe: A recipe, its name, or the path of a .toml file; None is the one for the data.
        seed: Seed of the weights, the order, the augmentation and the masks.
        budget: Share of the recipe's epochs to train for; its schedule shrinks along, and where λ is 0.01 or
            less it grows, so that λ · epochs stays.
        epochs: Number of epochs, in place of a budget: the schedule stretches along, λ stays. (The λ and the
            warm-up of the update by rates, unless they are named, always follow from the number of epochs.)
        fields: Fields of the recipe to set, such as "optimizer.lr=0.05".
        options: Choices about the data.
        precision: "32", or "bf16" for mixed precision.
        compile: Whether to compile the network with torch.compile.

    >>> config = configure("multimnist", "plm", budget=0.2)
    >>> config.recipe.schedule.epochs, config.recipe.schedule.milestones, str(config.method)
    (18, (12.0, 16.0), 'plm:rate=0.05')
    """
    if not 0 < budget <= 10:
        raise UserError(
            "the budget must be a share of the recipe's epochs, above 0 and at most 10, as in 0.2, "
            f"got {budget}"
        )
    if epochs is not None and budget != 1.0:
        raise UserError("choose either epochs or a budget, not both")
    if epochs is not None and epochs < 1:
        raise UserError(f"epochs must be 1 or more, got {epochs}")
    asked = parse(method)
    chosen = recipe if isinstance(recipe, Recipe) else load_recipe(recipe or default_recipe(data))
    chosen = chosen.with_fields(fields)
    length = chosen.schedule.epochs
    scaled = epochs or max(1, round(length * budget))
    chosen = dataclasses.replace(chosen, schedule=chosen.schedule.stretched(scaled))
    resolved = asked.with_defaults(chosen.method)
    if resolved.masking is not None:
        shortening = length / scaled if budget != 1.0 else 1.0
        masking = _fitted_to_length(resolved.masking, scaled, shortening)
        resolved = dataclasses.replace(resolved, masking=masking)
    remake = None
    if recipe is None and data not in NAMED:
        arguments: dict[str, Any] = {
            "seed": seed,
            "budget": budget,
            "epochs": epochs,
            "fields": tuple(fields),
            "options": options,
            "precision": precision,
            "compile": compile,
        }
        remake = functools.partial(configure, data, method, **arguments)
    return RunConfig(
        data=data,
        name=str(asked),
        method=resolved,
        recipe=chosen,
        options=options or DataOptions(),
        seed=seed,
        budget=budget,
        precision=precision,
        compile=compile,
        remake=remake,
    )


def determined_by(config: RunConfig) -> dict[str, Any]:
    """What a run's result depends on beside the data and the number of processes, for data of its shape.

    >>> determined_by(configure("digits", "plm+focal"))["method"]
    'plm:rate=0.05+focal:gamma=2'
    """
    values = config.to_json()
    recipe = {name: table for name, table in values["recipe"].items() if name != "method"}
    return {"recipe": recipe, **{name: values[name] for name in ("method", "seed", "precision", "compile")}}


def default_recipe(data: str) -> str:
    """Name of the recipe for a data set by name; for a user's own file that for tables.

    >>> default_recipe("cifar10-lt"), default_recipe("mydata.csv")
    ('cifar10-lt', 'tables')
    """
    if data in recipe_names():
        return data
    return "coco" if data in ("coco-mlt", "voc-mlt") else "tables"


def digest(determining: dict[str, Any]) -> str:
    """A short digest of what determines a run's result.

    >>> digest({"seed": 0}) == digest({"seed": 0}) != digest({"seed": 1})
    True
    """
    text = json.dumps(determining, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(there: dict[str, Any], asked: dict[str, Any], *, path: str = "") -> list[str]:
    """What differs between two configurations, field by field, as text.

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
        return [f"the contents of {there['file']}"]  # whatever follows from them
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


def _fitted_to_length(masking: Masking, epochs: int, shortening: float) -> Masking:
    """The masking for so many epochs, `shortening` times fewer than the recipe's by a budget."""
    if masking.adapt == "rate":
        rate = read_rate(masking.rate, "rate", epochs)
        return dataclasses.replace(masking, rate=rate, warmup=read_warmup(masking.warmup, "rate", epochs))
    rate = read_rate(masking.rate, "divergence")
    if shortening == 1 or rate > SLOW_RATE:
        return masking
    return dataclasses.replace(masking, rate=float(f"{rate * shortening:.6g}"))
