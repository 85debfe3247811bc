"""What a study is to run: settings that its runs share, and one planned run for each method and seed."""

from __future__ import annotations

import dataclasses
import re
import shlex
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailmask.data import NAMED, DataOptions, load
from tailmask.data.options import PLACES
from tailmask.errors import UserError
from tailmask.files import shortened, slug
from tailmask.method import WORDS, Method, parse
from tailmask.training import RunConfig, configure
from tailmask.training.config import Precision

__all__ = [
    "PlannedRun",
    "Setting",
    "check_count",
    "distinct",
    "method_names",
    "plan_runs",
    "run_name",
    "without_places",
]

# Places of the public sets, which nobody needs to know: their names are enough.
_ROOTS = ("data_dir", "download")


@dataclass(frozen=True)
class Setting:
    """All that determines a run but the method and the seed; what may stand in one table.

    >>> Setting("cifar10-lt", DataOptions(rho=50), budget=0.2).name
    'cifar10-lt_rho=50_budget=0.2'
    """

    data: str
    options: DataOptions = field(default_factory=DataOptions)
    recipe: str | None = None
    budget: float = 1.0
    epochs: int | None = None
    fields: tuple[str, ...] = ()  # of the recipe, as in optimizer.lr=0.05
    precision: Precision = "32"

    def config(self, method: str, seed: int) -> RunConfig:
        """The configuration of a run; bad names and values raise a `UserError`."""
        return configure(
            self.data,
            method,
            recipe=self.recipe,
            seed=seed,
            budget=self.budget,
            epochs=self.epochs,
            fields=self.fields,
            options=self.options,
            precision=self.precision,
        )

    def check_data(self) -> None:
        """Raise a `UserError` at once where the data are neither a known name nor a file."""
        if self.data not in NAMED and not Path(self.data).exists():
            load(self.data)  # says which name is nearest, before anything heavy is imported

    @property
    def choices(self) -> dict[str, Any]:
        """The choices about the data that differ from their defaults."""
        default = DataOptions()
        values = {f.name: getattr(self.options, f.name) for f in dataclasses.fields(DataOptions)}
        return {name: value for name, value in values.items() if value != getattr(default, name)}

    def identity(self) -> dict[str, Any]:
        """The setting as JSON, but for where files are: what they hold has digests in the data's source."""
        return without_places(self.to_json())

    def published(self) -> dict[str, Any]:
        """The setting as JSON for others to read: files and folders by their names alone.

        >>> Setting("home/a.csv", DataOptions(test_file=Path("home/b.csv"))).published()["options"]
        {'test_file': 'b.csv'}
        """
        chosen = {name: value for name, value in self.choices.items() if name not in _ROOTS}
        names = {name: v.name if isinstance(v, Path) else v for name, v in chosen.items()}
        return self.identity() | {"options": names}

    def shares_data(self, other: Setting) -> bool:
        """Whether both settings are of the same data."""
        return self.data == other.data and self.options == other.options

    @property
    def name(self) -> str:
        """A name for a folder: the data, and what differs from the defaults."""
        parts = [Path(self.data).stem]
        parts += [f"{name}={_text(value)}" for name, value in self.published()["options"].items()]
        parts += [] if self.recipe is None else [f"recipe={Path(self.recipe).stem}"]
        parts += [] if self.budget == 1.0 else [f"budget={_text(self.budget)}"]
        parts += [] if self.epochs is None else [f"epochs={self.epochs}"]
        parts += [re.sub(r"[\[\]\s\"']", "", assignment) for assignment in self.fields]
        parts += [] if self.precision == "32" else [f"precision={self.precision}"]
        return shortened(slug("_".join(parts)))

    def arguments(self) -> list[str]:
        """The arguments of `tailmask train` that make the setting.

        >>> Setting("multimnist", DataOptions(fresh_shifts=True), epochs=3).arguments()
        ['multimnist', '--fresh-shifts', '--epochs', '3']
        """
        arguments = [self.data]
        for name, value in self.choices.items():
            option = name.replace("_", "-")
            if isinstance(value, bool):
                arguments.append(f"--{option}" if value else f"--no-{option}")
            else:
                arguments += [f"--{option}", _text(value)]
        arguments += [] if self.recipe is None else ["--recipe", self.recipe]
        arguments += [] if self.budget == 1.0 else ["--budget", _text(self.budget)]
        arguments += [] if self.epochs is None else ["--epochs", str(self.epochs)]
        arguments += [] if self.precision == "32" else ["--precision", self.precision]
        return arguments + (["--set", *self.fields] if self.fields else [])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, with the precision and the choices about the data where they are not the default."""
        options = {name: str(v) if isinstance(v, Path) else v for name, v in self.choices.items()}
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        if self.precision == "32":
            del values["precision"]
        return values | {"options": options, "fields": list(self.fields)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Setting:
        """The setting that `to_json` wrote."""
        hints = typing.get_type_hints(DataOptions)
        options: dict[str, Any] = {
            name: Path(part) if Path in typing.get_args(hints[name]) else part
            for name, part in value["options"].items()
        }
        values: dict[str, Any] = {"options": DataOptions(**options), "fields": tuple(value["fields"])}
        return cls(**value | values)


def without_places(setting: dict[str, Any]) -> dict[str, Any]:
    """A setting's JSON without the places of files: those of the data and the recipe have their names.

    >>> without_places({"data": "./a.csv", "options": {"rho": 10.0, "test_file": "b.csv"}, "recipe": None})
    {'data': 'a.csv', 'options': {'rho': 10.0}, 'recipe': None}
    """
    options = {name: value for name, value in setting["options"].items() if name not in PLACES}
    recipe = setting["recipe"] and Path(setting["recipe"]).name
    return setting | {"data": Path(setting["data"]).name, "options": options, "recipe": recipe}


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study, and the folder that it is made in."""

    setting: Setting
    method: str
    seed: int
    folder: Path

    @property
    def config(self) -> RunConfig:
        """The configuration of the run."""
        return self.setting.config(self.method, self.seed)

    @property
    def label(self) -> str:
        """The run in a few words."""
        return f"{self.method}, seed {self.seed}"

    def task(self) -> dict[str, Any]:
        """What a worker must know of the run beside its setting."""
        return {"method": self.method, "seed": self.seed, "folder": str(self.folder)}

    @property
    def command(self) -> str:
        """The command line that makes the run by itself.

        >>> print(PlannedRun(Setting("digits", budget=0.5), "plm", 1, Path("runs/a")).command)
        tailmask train digits --budget 0.5 --method plm --seed 1 --out runs/a
        """
        own = ["--method", self.method, "--seed", str(self.seed), "--out", str(self.folder)]
        return shlex.join(["tailmask", "train", *self.setting.arguments(), *own])


def plan_runs(
    setting: Setting, methods: Iterable[str], seeds: Iterable[int], *, folder: Path
) -> list[PlannedRun]:
    """One run for each seed and method, all methods of a seed together, in folders below `folder`.

    >>> runs = plan_runs(Setting("digits"), ["bce", "plm:rate=1"], [0], folder=Path("a"))
    >>> [str(run.folder) for run in runs]
    ['a/bce_seed=0', 'a/plm_rate=1_seed=0']
    """
    methods = list(methods)
    return [
        PlannedRun(setting, method, seed, folder / run_name(method, seed))
        for seed in seeds
        for method in methods
    ]


def run_name(method: str, seed: int) -> str:
    """What the folder of a run is called, among those of its setting.

    >>> run_name("plm:rate=1", 0)
    'plm_rate=1_seed=0'
    """
    return slug(f"{method}_seed={seed}")


def method_names(methods: Iterable[str]) -> list[str]:
    """The methods' canonical names, each once, in their order.

    >>> method_names(["plm+bce", "plm", "focal"])
    ['plm', 'focal']
    """
    return distinct([str(_parse(name)) for name in methods])


def check_count(name: str, value: int) -> None:
    """Raise a `UserError` unless `value` is 1 or more."""
    if value < 1:
        raise UserError(f"--{name} must be 1 or more, got {value}")


def distinct(names: Sequence[str]) -> list[str]:
    """The names without repetitions, in their order."""
    return list(dict.fromkeys(names))


def _parse(name: str) -> Method:
    try:
        return parse(name)
    except UserError:
        # Commas stand between a word's options, too: what comes after this one is a method of its own.
        between = re.compile(rf",\s*(?=(?:{'|'.join(WORDS)})\s*(?:[:+,]|$)|$)", flags=re.IGNORECASE)
        separated = between.sub(" ", name).strip()
        if separated == name.strip():
            raise
        raise UserError(f"methods are separated by spaces, as in --methods {separated}") from None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
