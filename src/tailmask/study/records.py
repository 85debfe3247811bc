"""The runs that a result rests on, found by their setting and method, and listed for the record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tailmask.errors import UserError, listing
from tailmask.files import slug
from tailmask.study.earlier import RunKey, can_be_kept, refuse_loss, run_key
from tailmask.study.found_runs import complete_runs, recipe_differences
from tailmask.study.plan import Setting
from tailmask.study.request import Part
from tailmask.training import Run
from tailmask.training.config import differences

__all__ = ["RunRecords", "run_records"]


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
            is_of_part = (setting, name) == (part.setting.name, part.method)
            if is_of_part and seed not in of_seed and can_be_kept(record):
                of_seed[seed] = record["measures"]
                self.found[run_key(record)] = part.setting, record
        return [of_seed[seed] for seed in sorted(of_seed)]

    def more_methods(self, known: Sequence[Part]) -> list[str]:
        """Methods besides those of the known parts that the earlier result has runs of, in its order."""
        settings = {part.setting.name for part in known}
        recorded = ((setting, name) for setting, name, _ in self._earlier if setting in settings)
        more = set(recorded) - {(part.setting.name, part.method) for part in known}
        return list(dict.fromkeys(name for setting, name, _ in self._earlier if (setting, name) in more))

    def check_data(self, setting: Setting, source: dict[str, Any]) -> None:
        """Raise a `UserError` where a run of the setting, on disk or on record, is of other data."""
        runs = complete_runs(self.folder / setting.name)
        recorded = [
            record
            for (name, _, _), record in self._earlier.items()
            if name == setting.name and can_be_kept(record)
        ]
        for record in (*(run.config for run in runs), *recorded):
            found = differences(record["determines"].get("data", {}), json.loads(json.dumps(source)))
            if found:
                raise UserError(
                    f"{record['name']} (seed {record['seed']}) was trained on other data, which differ in "
                    f"{listing(found, limit=3)}: choose other folders with --runs and --out"
                )

    def check(self, path: Path) -> None:
        """Raise a `UserError` unless the result at `path` keeps all its runs, and they are of one kind."""
        lost = [record for key, record in self._earlier.items() if key not in self.found]
        refuse_loss(path, lost, runs=self.folder)
        trained = {setting: record for setting, record in self.found.values() if "result" not in record}
        for setting, record in self.found.values():
            if "result" in record:
                data = trained.get(setting, record)["determines"].get("data")
                found = recipe_differences(record, setting, data=data)
                if found:
                    raise UserError(
                        f"{path} has runs by another recipe or on other data, which differ in "
                        f"{listing(found, limit=3)}: choose another folder with --out"
                    )

    def to_json(self) -> dict[str, Any]:
        """What the record of a result says of its runs, each with its own measures."""
        return _listed(list(self.found.values()))


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


def _belongs(run: Run, part: Part) -> bool:
    """Whether a run is just what the part asks for, whatever its seed."""
    asked = part.setting.config(part.method, run.config["seed"]).fitted(run.config.get("shape", ()))
    return all(run.config.get(name) == value for name, value in asked.to_json().items())
