"""Settings: the user's choices, resolved with the facts of the data to configurations of runs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from tailmask._util.files import shortened, slug
from tailmask._util.messages import UserError, check_count
from tailmask._util.precision import AskedPrecision, Precision, has_fast_bf16
from tailmask.data import NAMED, DataOptions, load
from tailmask.data.facts import DataFacts
from tailmask.data.options import PLACES
from tailmask.masking.schedule import Schedule
from tailmask.methods import Method, parse
from tailmask.models import is_own_model
from tailmask.runs.config import RunConfig
from tailmask.runs.recipe import Recipe, load_recipe, recipe_names

__all__ = ["TABLE_MODELS", "ResolvedSetting", "Setting", "configure", "default_recipe", "without_places"]

# Folders of public data sets. They are not published, because the names of the sets are enough.
_ROOTS = ("data_dir", "download", "feature_dir")

# Tables with fewer rows for training and validation are cross-fitted by default.
FEW_ROWS, DEFAULT_FOLDS = 20_000, 5

TABLE_MODELS = ("mlp", "linear")

# Tables with at most this many features get eight networks that train at once.
MODERATE_WIDTH = 2000

# A shorter budget raises a λ of at most this value. So λ · epochs stays the same, and so does the drift of
# the ratios.
SLOW_RATE = 0.01

# With this λ or a higher one, the update by divergence keeps all classes near one common ratio. Training for
# less than this share of the recipe's epochs then shows frequent classes too few of their positives.
_FAST_RATE, _SHORT_SHARE = 0.5, 0.5


@dataclass(frozen=True)
class Setting:
    """The user's choices except the method and the seed; all rows of one table share them.

    >>> Setting("cifar10-lt", DataOptions(rho=50), budget=0.2).name
    'cifar10-lt_rho=50_budget=0.2'
    """

    data: str
    options: DataOptions = field(default_factory=DataOptions)
    recipe: str | None = None
    budget: float = 1.0
    epochs: int | None = None
    fields: tuple[str, ...] = ()  # changes to the recipe, as in optimizer.lr=0.05
    precision: AskedPrecision = "32"
    compiled: bool = False
    folds: int | None = None  # None chooses by the data

    def __post_init__(self) -> None:
        if not 0 < self.budget <= 10:
            raise UserError(
                "the budget must be a share of the recipe's epochs, above 0 and at most 10, such as 0.2, "
                f"got {self.budget}"
            )
        if self.epochs is not None and self.budget != 1.0:
            raise UserError("choose either epochs or a budget, not both")
        if self.epochs is not None and self.epochs < 1:
            raise UserError(f"epochs must be 1 or more, got {self.epochs}")
        check_count("folds", self.folds)

    def check(self, methods: Iterable[str] = ()) -> None:
        """Raise a `UserError` for mistakes that show without the data: in names, fields, options."""
        recipe = load_recipe(self.recipe or self._default_recipe(())).with_fields(self.fields)
        for method in methods:
            parse(method).with_defaults(recipe.method)

    def check_data(self) -> None:
        """Raise a `UserError` if the data are neither a known name nor a file."""
        if self.data not in NAMED and not Path(self.data).exists():
            load(self.data)  # raises an error with the nearest known name, before heavy imports

    def keep_precision(self, existing: Any) -> Setting:
        """The setting with the precision of an existing run or study, if its own precision is "auto".

        >>> Setting("digits", precision="auto").keep_precision("bf16").precision
        'bf16'
        >>> Setting("digits").keep_precision("bf16").precision
        '32'
        """
        if self.precision != "auto" or existing not in get_args(Precision):
            return self
        return dataclasses.replace(self, precision=existing)

    def resolve(
        self, facts: DataFacts | None = None, *, has_fast_bf16: Callable[[], bool] = has_fast_bf16
    ) -> ResolvedSetting:
        """The setting with its recipe resolved: chosen for the data, with all fields set, and scaled.

        The precision "auto" becomes "bf16" if `has_fast_bf16` returns true, else "32". `facts` are loaded if
        they are not given and the recipe depends on them: the default recipe differs for images and tables,
        and its numbers of rarest classes are shares of all classes.
        """
        is_open = self.data not in recipe_names() or self.options.features_of is not None
        if facts is None and self.recipe is None and is_open:  # the recipe depends on them
            facts = DataFacts.of(load(self.data, self.options))
        shape = () if facts is None else facts.shape
        recipe = load_recipe(self.recipe or self._default_recipe(shape)).with_fields(self.fields)
        length = recipe.schedule.epochs
        if facts is not None and facts.raw_rows is not None and "schedule.epochs" not in self._by_hand:
            length = recipe.schedule.epochs_for(facts.raw_rows, is_sparse=facts.is_sparse)
        epochs = self.epochs or max(1, round(length * self.budget))
        recipe = dataclasses.replace(recipe, schedule=recipe.schedule.stretched(epochs))
        if facts is not None:
            evaluation = recipe.evaluation.with_groups(
                num_classes=len(facts.classes), single_label=facts.single_label
            )
            recipe = dataclasses.replace(recipe, evaluation=evaluation)
        asked = self
        if self.precision == "auto":
            asked = dataclasses.replace(self, precision="bf16" if has_fast_bf16() else "32")
        return ResolvedSetting(asked, recipe, length, folds=_folds(self.folds, recipe, facts))

    @property
    def _by_hand(self) -> dict[str, str]:
        """The fields of the recipe that the user sets, with their values."""
        parts = (field.partition("=") for field in self.fields)
        return {name.strip(): value.strip() for name, _, value in parts}

    def _default_recipe(self, shape: Sequence[int]) -> str:
        """The recipe for the data; `finetune` for a network that may be pretrained."""
        if self.options.features_of is not None:
            if self.options.finetune:
                return "finetune-texts" if len(shape) == 2 else "finetune"
            return default_recipe("features.npz", shape)
        recipe = default_recipe(self.data, shape)
        own = is_own_model(self._by_hand.get("model.name", ""))
        return "finetune" if own and recipe == "images" else recipe

    def identity(self) -> dict[str, Any]:
        """The setting as JSON without paths of files: the data's source has digests of their contents."""
        return without_places(self.to_json())

    def published(self) -> dict[str, Any]:
        """The setting as JSON for publication: files and folders by name, without their paths.

        >>> Setting("home/a.csv", DataOptions(test_file=Path("home/b.csv"))).published()["options"]
        {'test_file': 'b.csv'}
        """
        chosen = {name: value for name, value in self.options.choices().items() if name not in _ROOTS}
        names = {
            name: Path(v).name if isinstance(v, Path) or name == "backbone" else v
            for name, v in chosen.items()
        }
        return self.identity() | {"options": names}

    @property
    def name(self) -> str:
        """A folder name: the data, and all choices except compilation that differ from the defaults."""
        parts = [Path(self.data).stem]
        parts += [f"{name}={_text(value)}" for name, value in self.published()["options"].items()]
        parts += [] if self.recipe is None else [f"recipe={Path(self.recipe).stem}"]
        parts += [] if self.budget == 1.0 else [f"budget={_text(self.budget)}"]
        parts += [] if self.epochs is None else [f"epochs={self.epochs}"]
        parts += [re.sub(r"[\[\]\s\"']", "", assignment) for assignment in self.fields]
        parts += [] if self.precision == "32" else [f"precision={self.precision}"]
        parts += [] if self.folds is None else [f"folds={self.folds}"]
        return shortened(slug("_".join(parts)))

    def arguments(self) -> list[str]:
        """The arguments of `tailmask train` for this setting.

        >>> Setting("multimnist", DataOptions(fresh_shifts=True), epochs=3).arguments()
        ['multimnist', '--fresh-shifts', '--epochs', '3']
        """
        arguments = [self.data]
        for name, value in self.options.choices().items():
            option = name.replace("_", "-")
            if isinstance(value, bool):
                arguments.append(f"--{option}" if value else f"--no-{option}")
            elif _text(value).startswith("-"):
                arguments.append(f"--{option}={_text(value)}")
            else:
                arguments += [f"--{option}", _text(value)]
        arguments += [] if self.recipe is None else ["--recipe", self.recipe]
        arguments += [] if self.budget == 1.0 else ["--budget", _text(self.budget)]
        arguments += [] if self.epochs is None else ["--epochs", str(self.epochs)]
        arguments += [] if self.precision == "32" else ["--precision", self.precision]
        arguments += ["--compile"] if self.compiled else []
        arguments += [] if self.folds is None else ["--folds", str(self.folds)]
        return arguments + (["--set", *self.fields] if self.fields else [])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; precision, compilation, folds and choices about the data only if not the default."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for name, default in (("precision", "32"), ("compiled", False), ("folds", None)):
            if values[name] == default:
                del values[name]
        return values | {"options": self.options.to_json(), "fields": list(self.fields)}


@dataclass(frozen=True)
class ResolvedSetting:
    """A setting with its resolved recipe; `config` returns the configuration of each run.

    The precision in `asked` is no longer "auto". `length` is the recipe's number of epochs before a budget or
    `epochs` changed it.
    """

    asked: Setting
    recipe: Recipe
    length: int
    folds: int = 1

    @property
    def name(self) -> str:
        """A name for a folder."""
        return self.asked.name

    @property
    def data(self) -> str:
        """Name or path of the data."""
        return self.asked.data

    @property
    def options(self) -> DataOptions:
        """The choices about the data."""
        return self.asked.options

    def config(self, method: str, seed: int = 0) -> RunConfig:
        """The configuration of a run."""
        asked = parse(method)
        epochs = self.recipe.schedule.epochs
        resolved = asked
        if asked.learner is None:  # the λ of a recipe is for networks
            shortening = self.length / epochs if self.asked.budget != 1.0 else 1.0
            resolved = _fitted_to_length(asked.with_defaults(self.recipe.method), epochs, shortening)
        return RunConfig(
            data=self.data,
            name=str(asked),
            method=resolved,
            recipe=self.recipe,
            options=self.options,
            seed=seed,
            budget=self.asked.budget,
            precision="bf16" if self.asked.precision == "bf16" else "32",
            compiled=self.asked.compiled,
            folds=self.folds,
            notes=_notes(resolved, share=epochs / self.length),
        )


def configure(
    data: str,
    method: str = "plm",
    *,
    seed: int = 0,
    options: DataOptions | None = None,
    recipe: str | None = None,
    budget: float = 1.0,
    epochs: int | None = None,
    fields: Sequence[str] = (),
    precision: AskedPrecision = "32",
    compiled: bool = False,
    folds: int | None = 1,
    facts: DataFacts | None = None,
) -> RunConfig:
    """The configuration of one run.

    Args:
        data: Name or path of the data.
        method: Name of the method, such as "plm+focal".
        seed: Seed of the weights, the order, the augmentation and the masks.
        options: Choices about the data.
        recipe: Name of a recipe, or the path of a .toml file; None is the default for the data.
        budget: Share of the recipe's epochs to train for. The schedule scales with it. A λ of 0.01 or less
            grows: λ · epochs stays the same.
        epochs: Number of epochs, instead of a budget. The schedule scales with it; λ stays the same. (The
            λ and the warm-up of the update by prevalence always follow from the number of epochs, unless
            they are named.)
        fields: Fields of the recipe to set, such as "optimizer.lr=0.05".
        precision: "32", "bf16" for mixed precision, or "auto" for "bf16" if it is fast on the machine.
        compiled: Whether to compile the network with torch.compile.
        folds: Number of folds to cross-fit; None is 5 for tables of fewer than 20,000 rows, else 1.
        facts: Facts about the data, if they are known; otherwise the data are loaded if needed.

    >>> config = configure("multimnist", "plm", budget=0.2)
    >>> config.recipe.schedule.epochs, config.recipe.schedule.milestones, str(config.method)
    (18, (12.0, 16.0), 'plm:rate=0.05')
    """
    setting = Setting(
        data, options or DataOptions(), recipe, budget, epochs, tuple(fields), precision, compiled, folds
    )
    return setting.resolve(facts).config(method, seed)


def without_places(setting: dict[str, Any]) -> dict[str, Any]:
    """A setting's JSON without the paths of files: of the data and the recipe, the file names stay.

    >>> without_places({"data": "./a.csv", "options": {"rho": 10.0, "test_file": "b.csv"}, "recipe": None})
    {'data': 'a.csv', 'options': {'rho': 10.0}, 'recipe': None}
    """
    options = {name: value for name, value in setting["options"].items() if name not in PLACES}
    recipe = setting["recipe"] and Path(setting["recipe"]).name
    return setting | {"data": Path(setting["data"]).name, "options": options, "recipe": recipe}


def default_recipe(data: str, shape: Sequence[int] = ()) -> str:
    """Name of the default recipe: a known data set's own, or the one for images or tables for a user's file.

    Only tables of moderate width get eight networks: with 20,000 words, one epoch would take minutes.

    >>> default_recipe("cifar10-lt"), default_recipe("mine.npz", (3, 32, 32))
    ('cifar10-lt', 'images')
    >>> default_recipe("mydata.csv", (72,)), default_recipe("mydata.csv", (20_000,))
    ('table-members', 'wide-tables')
    """
    if data in recipe_names():
        return data
    if data in ("coco-mlt", "voc-mlt"):
        return "coco"
    if data not in NAMED and len(shape) == 3:
        return "images"
    if len(shape) != 1:
        return "tables"
    return "table-members" if shape[0] <= MODERATE_WIDTH else "wide-tables"


def _fitted_to_length(method: Method, epochs: int, shortening: float) -> Method:
    """The method with λ and warm-up for `epochs`; a budget has made training `shortening` times shorter."""
    if method.masking is None:
        return method
    rate = method.masking.get("rate")
    if method.masking.get("adapt") == "prevalence":
        schedule = Schedule.of("prevalence", rate=rate, warmup=method.masking.get("warmup"), epochs=epochs)
        return method.with_options("plm", rate=schedule.rate, warmup=schedule.warmup)
    rate = Schedule.of("divergence", rate=rate).rate
    if shortening == 1 or rate > SLOW_RATE:
        return method
    return method.with_options("plm", rate=float(f"{rate * shortening:.6g}"))


def _folds(asked: int | None, recipe: Recipe, facts: DataFacts | None) -> int:
    """The number of folds: the user's choice, else 5 if a table is small enough to train it five times."""
    if facts is None or facts.raw_rows is None or recipe.model.name not in TABLE_MODELS:
        if (asked or 1) > 1:
            raise UserError(
                "--folds is for tables and texts with tailmask's networks, but these are images, very many "
                "labels, a fine-tuned model, or a network of your own: leave it out"
            )
        return 1
    return asked or (DEFAULT_FOLDS if facts.raw_rows < FEW_ROWS else 1)


def _notes(method: Method, *, share: float) -> tuple[str, ...]:
    """Notes on a method that is trained for a share of the recipe's epochs."""
    masking = method.masking
    if masking is None or method.learner is not None or masking.get("adapt") == "prevalence":
        return ()
    rate = Schedule.of("divergence", rate=masking.get("rate")).rate
    if rate < _FAST_RATE or share >= _SHORT_SHARE:
        return ()
    return (
        f"plm with λ = {rate:g} masks too many positives of frequent classes in short trainings, and this "
        f"one has {100 * share:.3g} % of the recipe's epochs: on CIFAR-10-LT (ρ = 100) its error was 48.2 at "
        "15 % of the epochs (bce 40.6), and 25.0 with all of them (bce 28.7)",
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
