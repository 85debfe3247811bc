"""The finished runs that a result rests on, found by their setting and method, and listed for the record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tailmask.errors import UserError
from tailmask.files import slug
from tailmask.study.plan import Setting
from tailmask.study.request import Part
from tailmask.training import Run

__all__ = ["RunRecords", "other_runs", "run_records"]


class RunRecords:
    """Finds runs below a folder, and remembers which were found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: dict[Path, tuple[Setting, Run]] = {}

    def find(self, part: Part) -> list[Run]:
        """All complete runs of a part, in the order of their seeds; runs of other settings are left out."""
        runs = []
        for folder in (self.folder / part.setting.name).glob(f"{slug(part.method)}_seed=*"):
            run = Run(folder)
            if run.is_complete and _belongs(run, part):
                runs.append(run)
        runs.sort(key=lambda run: int(run.config["seed"]))
        self.found |= {run.folder: (part.setting, run) for run in runs}
        return runs

    def to_json(self) -> dict[str, Any]:
        """What the record of a result says of its runs."""
        return run_records(list(self.found.values()))


def other_runs(folder: Path, runs: Sequence[Run]) -> list[Run]:
    """The complete runs in a folder that belong in one table with `runs`, and are not among them."""
    known = {run.folder for run in runs}
    found = (Run(path) for path in sorted(folder.glob("*_seed=*")) if path not in known)
    return [run for run in found if run.is_complete and _is_comparable(run, runs[0])]


def run_records(found: Sequence[tuple[Setting, Run]]) -> dict[str, Any]:
    """Seeds, settings (with the number of epochs that each comes to) and runs of a result, as plain JSON."""
    settings = {setting: run.config["recipe"]["schedule"]["epochs"] for setting, run in found}
    return {
        "seeds": sorted({run.config["seed"] for _, run in found}),
        "settings": [
            setting.published() | {"name": setting.name, "trained_epochs": epochs}
            for setting, epochs in settings.items()
        ],
        "runs": [_run_record(setting, run) for setting, run in found],
    }


def _run_record(setting: Setting, run: Run) -> dict[str, Any]:
    config = run.config
    return {
        "setting": setting.name,
        "name": config["name"],
        "method": config["method"],
        "seed": config["seed"],
        "digest": config["digest"],
        "commit": config["commit"],
        "threads": config["sessions"][-1]["threads"],
        "seconds": round(sum(epoch["seconds"] for epoch in run.history), 1),
    }


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
