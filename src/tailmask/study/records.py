"""The runs that a result rests on, found by their setting and method, and listed for the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tailmask.errors import UserError, listing
from tailmask.files import slug
from tailmask.study.earlier import RunKey, run_key
from tailmask.study.plan import Setting
from tailmask.study.request import Part
from tailmask.training import Run
from tailmask.training.config import differences

__all__ = ["RunRecords", "other_runs", "run_records"]


class RunRecords:
    """Finds runs below a folder, or on the record of an earlier result, and remembers which were found."""

    def __init__(self, folder: Path, earlier: Sequence[dict[str, Any]] = ()) -> None:
        self.folder = folder
        self.found: dict[RunKey, tuple[Setting, dict[str, Any]]] = {}
        self._earlier = {run_key(record): record for record in earlier}

    def find(self, part: Part) -> list[Run]:
        """All complete runs of a part, in the order of their seeds; runs of other settings are left out."""
        runs = []
        for folder in (self.folder / part.setting.name).glob(f"{slug(part.method)}_seed=*"):
            run = Run(folder)
            if run.is_complete and _belongs(run, part):
                runs.append(run)
        runs.sort(key=lambda run: int(run.config["seed"]))
        for run in runs:
            details = {name: run.config.get(name) for name in ("determines", "shape")}
            record = _run_record(part.setting, run) | details
            self.found[run_key(record)] = part.setting, record
        return runs

    def measures(self, part: Part) -> list[Mapping[str, float | None]]:
        """What all runs of a part measured on the test set, in the order of their seeds.

        A run that is gone counts by what the earlier result has on record of it.
        """
        of_seed = {run.config["seed"]: _measures(run) for run in self.find(part)}
        for (setting, name, seed), record in self._earlier.items():
            if (setting, name) == (part.setting.name, part.method) and seed not in of_seed:
                of_seed[seed] = record["measures"]
                self.found[run_key(record)] = part.setting, record
        return [of_seed[seed] for seed in sorted(of_seed)]

    def more_methods(self, known: Sequence[Part]) -> list[str]:
        """Methods besides those of the known parts that the earlier result has runs of, in its order."""
        settings, methods = {part.setting.name for part in known}, {part.method for part in known}
        found = (name for setting, name, _ in self._earlier if setting in settings and name not in methods)
        return list(dict.fromkeys(found))

    def to_json(self) -> dict[str, Any]:
        """What the record of a result says of its runs, each with its own measures.

        Runs of one setting that were trained otherwise, or on other data, raise a `UserError`.
        """
        first: dict[Setting, dict[str, Any]] = {}
        for setting, record in sorted(self.found.values(), key=lambda item: "result" in item[1]):
            there, asked = _shared(record), _shared(first.setdefault(setting, record))
            config = setting.config(record["name"], record["seed"]).fitted(record["shape"] or ())
            found = differences(there, asked | {"method": str(config.method)})
            if found:
                raise UserError(
                    "the earlier result has runs by another recipe or on other data, which differ in "
                    f"{listing(found, limit=3)}: choose another folder with --out"
                )
        return _listed(list(self.found.values()))


def other_runs(folder: Path, runs: Sequence[Run]) -> list[Run]:
    """The complete runs in a folder that belong in one table with `runs`, and are not among them."""
    known = {run.folder for run in runs}
    found = (Run(path) for path in sorted(folder.glob("*_seed=*")) if path not in known)
    return [run for run in found if run.is_complete and _is_comparable(run, runs[0])]


def run_records(found: Sequence[tuple[Setting, Run]]) -> dict[str, Any]:
    """Seeds, settings (with the number of epochs that each comes to) and runs of a result, as plain JSON."""
    return _listed([(setting, _run_record(setting, run)) for setting, run in found])


def _listed(found: Sequence[tuple[Setting, dict[str, Any]]]) -> dict[str, Any]:
    settings = {setting: record["epochs"] for setting, record in found}
    return {
        "seeds": sorted({record["seed"] for _, record in found}),
        "settings": [
            setting.published() | {"name": setting.name, "trained_epochs": epochs}
            for setting, epochs in settings.items()
        ],
        "runs": [record for _, record in found],
    }


def _run_record(setting: Setting, run: Run) -> dict[str, Any]:
    config = run.config
    return {
        "setting": setting.name,
        "name": config["name"],
        "method": config["method"],
        "seed": config["seed"],
        "epochs": config["recipe"]["schedule"]["epochs"],
        "digest": config["digest"],
        "commit": config["commit"],
        "threads": config["sessions"][-1]["threads"],
        "seconds": round(sum(epoch["seconds"] for epoch in run.history), 1),
        "measures": _measures(run),
    }


def _measures(run: Run) -> dict[str, float | None]:
    summary: dict[str, float | None] = run.metrics["test"]["summary"]
    return summary


def _shared(record: dict[str, Any]) -> dict[str, Any]:
    """What determines a run beside its seed."""
    return {name: value for name, value in record["determines"].items() if name != "seed"}


def _is_comparable(run: Run, first: Run) -> bool:
    from tailmask.analysis import arrange

    try:
        arrange([first, run])
    except UserError:  # of another setting, or damaged
        return False
    return run.folder.name == slug(f"{run.config['name']}_seed={run.config['seed']}")


def _belongs(run: Run, part: Part) -> bool:
    """Whether a run is just what the part asks for, whatever its seed."""
    asked = part.setting.config(part.method, run.config["seed"]).fitted(run.config.get("shape", ()))
    return all(run.config.get(name) == value for name, value in asked.to_json().items())
