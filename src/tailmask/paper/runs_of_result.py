"""The runs of a result: found by setting and method, and listed in its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tailmask._util.files import slug
from tailmask._util.messages import UserError, listing
from tailmask.paper.earlier_result import RunKey, can_be_kept, refuse_loss, run_key
from tailmask.paper.request import Arm
from tailmask.runs import ResolvedSetting, Run, Setting
from tailmask.runs.config import differences
from tailmask.studies.existing_runs import complete_runs, recipe_differences
from tailmask.studies.run_records import listed_runs, measures_on_test, run_record

__all__ = ["RunRecords"]


class RunRecords:
    """Finds runs in a folder or in the records of an earlier result, and keeps a list of them."""

    def __init__(self, folder: Path, earlier: Sequence[dict[str, Any]] = ()) -> None:
        self.folder = folder
        self.found: dict[RunKey, tuple[ResolvedSetting, dict[str, Any]]] = {}
        self._earlier = {run_key(record): record for record in earlier}

    def find(self, arm: Arm) -> list[Run]:
        """All complete runs of an arm, in the order of their seeds; runs of other settings are left out."""
        runs = []
        for folder in (self.folder / arm.setting.name).glob(f"{slug(arm.method)}_seed=*"):
            run = Run(folder)
            if run.is_complete and _belongs(run, arm):
                runs.append(run)
        runs.sort(key=lambda run: int(run.config["seed"]))
        for run in runs:
            details = {name: run.config.get(name) for name in ("determines", "shape")}
            record = run_record(arm.setting, run) | details
            self.found[run_key(record)] = arm.setting, record
        return runs

    def measures(self, arm: Arm) -> list[Mapping[str, float | None]]:
        """The test measures of all runs of an arm, in the order of their seeds.

        If a run is gone, its measures come from the earlier result.
        """
        of_seed = {run.config["seed"]: measures_on_test(run) for run in self.find(arm)}
        for (setting, name, seed), record in self._earlier.items():
            is_of_arm = (setting, name) == (arm.setting.name, arm.method)
            if is_of_arm and seed not in of_seed and can_be_kept(record):
                of_seed[seed] = record["measures"]
                self.found[run_key(record)] = arm.setting, record
        return [of_seed[seed] for seed in sorted(of_seed)]

    def more_methods(self, known: Sequence[Arm]) -> list[str]:
        """The methods in the earlier result that are not in the known arms, in its order."""
        settings = {arm.setting.name for arm in known}
        recorded = ((setting, name) for setting, name, _ in self._earlier if setting in settings)
        more = set(recorded) - {(arm.setting.name, arm.method) for arm in known}
        return list(dict.fromkeys(name for setting, name, _ in self._earlier if (setting, name) in more))

    def check_data(self, setting: Setting, source: dict[str, Any]) -> None:
        """Raise a `UserError` if a run of the setting, on disk or recorded, was trained on other data."""
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
        """Raise a `UserError` unless the result at `path` keeps all its runs and they have one setting."""
        lost = [record for key, record in self._earlier.items() if key not in self.found]
        refuse_loss(path, lost, runs=self.folder)
        trained = {setting: record for setting, record in self.found.values() if "result" not in record}
        for setting, record in self.found.values():
            if "result" in record:
                data = trained.get(setting, record)["determines"].get("data")
                found = recipe_differences(record, setting, data=data)
                if found:
                    raise UserError(
                        f"{path} has runs with another recipe or other data, which differ in "
                        f"{listing(found, limit=3)}: choose another folder with --out"
                    )

    def to_json(self) -> dict[str, Any]:
        """The seeds, settings and runs for the result's JSON, each run with its measures."""
        return listed_runs(list(self.found.values()))


def _belongs(run: Run, arm: Arm) -> bool:
    """True if the arm's setting would make the same run, with any seed."""
    data = run.config["determines"].get("data")
    return run.config["name"] == arm.method and not recipe_differences(run.config, arm.setting, data=data)
