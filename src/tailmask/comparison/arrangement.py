"""Finished runs, ordered by method and seed. Runs that do not belong in one table are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailmask._util.messages import UserError, listing, nearest
from tailmask.methods import parse
from tailmask.runs.reader import Run

__all__ = ["Experiment", "arrange"]


@dataclass(frozen=True)
class Experiment:
    """Runs of several methods on the same data with the same recipe: `runs[method][seed]`.

    The baseline comes first. The other methods keep the given order.
    """

    runs: Mapping[str, Mapping[int, Run]]
    baseline: str

    @property
    def config(self) -> dict[str, Any]:
        """Configuration of the first run. All runs share it, except for method, seed and folder."""
        return next(iter(self)).config

    @property
    def methods(self) -> list[str]:
        """Names of the methods, the baseline first."""
        return list(self.runs)

    @property
    def classes(self) -> list[str]:
        """Names of the classes."""
        return [str(name) for name in self.config["classes"]]

    @property
    def single_label(self) -> bool:
        """True if each sample has exactly one label; the main measure is then the error."""
        return bool(self.config["single_label"])

    @property
    def train_positives(self) -> list[int]:
        """The number of positive training samples per class."""
        return [int(number) for number in self.config["train_counts"][1]]

    def __iter__(self) -> Iterator[Run]:
        return (run for by_seed in self.runs.values() for run in by_seed.values())


def arrange(runs: Sequence[Run], *, baseline: str | None = None) -> Experiment:
    """The runs by method and seed; raises a `UserError` if they cannot be compared.

    A run has the name of the requested method. If one name covers several sets of options, as after
    `--set method.plm.rate=0.1`, its runs have the full name of the method. The default `baseline` is `bce` if
    it is there, else the first method that does not mask, else the first.
    """
    if not runs:
        raise UserError("there is no run to compare: name run folders")
    for run in runs:
        _check_complete(run)
    for run in runs[1:]:
        _check_same_setting(runs[0], run)
    ordered: dict[str, dict[int, Run]] = {}
    for run, label in zip(runs, _labels(runs), strict=True):
        by_seed, seed = ordered.setdefault(label, {}), run.config["seed"]
        if seed in by_seed:
            raise UserError(
                f"{by_seed[seed].folder} and {run.folder} are both {label} with seed {seed}: name one of them"
            )
        by_seed[seed] = run
    first = _choose_baseline(list(ordered), baseline)
    methods = [first, *(method for method in ordered if method != first)]
    return Experiment({name: dict(sorted(ordered[name].items())) for name in methods}, first)


_KINDS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "method": str,
    "seed": int,
    "budget": (int, float),
    "recipe": dict,
    "determines": dict,
    "data": str,
    "classes": list,
    "single_label": bool,
    "train_counts": list,
}


def _check_complete(run: Run) -> None:
    config = run.config
    for name, kind in _KINDS.items():
        if not isinstance(config.get(name), kind) or not _holds(name, config):
            raise UserError(f"{run.folder}/run.json has no valid {name!r}: was it written by tailmask?")
    if not run.is_complete:
        raise UserError(
            f"{run.folder} is not complete: run its `tailmask train` command again, "
            "and it resumes after the last finished epoch"
        )


def _holds(name: str, config: dict[str, Any]) -> bool:
    """True if a field has the right type and the parts that are read later."""
    value = config[name]
    if name == "recipe":
        return isinstance(value.get("schedule"), dict) and isinstance(value.get("evaluation"), dict)
    if name == "train_counts":
        rows = [row for row in value if isinstance(row, list) and len(row) == len(config["classes"])]
        return len(rows) == len(value) == 2 and all(_is_count(number) for row in rows for number in row)
    return name != "classes" or all(isinstance(each, str) for each in value)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63  # it becomes an int64 tensor


def _setting(run: Run) -> dict[str, Any]:
    """The fields that must be equal in one table, flat: data, recipe, budget and precision."""
    config = run.config
    determines = {k: v for k, v in config["determines"].items() if k not in ("method", "seed")}
    return dict(_flat({"budget": config["budget"], **determines, "classes": config["classes"]}))


def _check_same_setting(first: Run, run: Run) -> None:
    one, other = _setting(first), _setting(run)
    differing = [name for name in one | other if one.get(name) != other.get(name)]
    if not differing:
        return
    names = first.config["data"], run.config["data"]
    if names[0] != names[1] and any(name.startswith("data.") for name in differing):
        values = [f"the data ({names[0]} and {names[1]})"]
    else:
        # A budget also changes the schedule, so the message names only the budget.
        shown = ["budget"] if "budget" in differing else differing
        values = [f"{name} ({_short(one.get(name))} and {_short(other.get(name))})" for name in shown]
    raise UserError(
        f"{first.folder} and {run.folder} cannot be in one table: "
        f"they differ in {listing(values, limit=3)}; report them separately"
    )


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, part in value.items():
        if isinstance(part, Mapping):
            yield from _flat(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", part


def _labels(runs: Sequence[Run]) -> list[str]:
    full: dict[str, set[str]] = {}
    for run in runs:
        full.setdefault(run.config["name"], set()).add(run.config["method"])
    return [
        run.config["name"] if len(full[run.config["name"]]) == 1 else run.config["method"] for run in runs
    ]


def _choose_baseline(methods: list[str], asked: str | None) -> str:
    if asked is not None:
        if asked not in methods:
            raise UserError(f"there is no run of the baseline {asked!r}: {nearest(asked, methods)}")
        return asked
    if "bce" in methods:
        return "bce"
    return next((name for name in methods if parse(name).masking is None), methods[0])


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
