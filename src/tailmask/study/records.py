"""The finished runs that a result rests on, found by their setting and method, and listed for the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailmask.study.plan import Setting, slug
from tailmask.study.request import Part
from tailmask.training import Run

__all__ = ["RunRecords"]


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

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs that were found."""
        return sorted({run.config["seed"] for _, run in self.found.values()})

    def settings(self) -> list[dict[str, Any]]:
        """The settings of the runs that were found, with the number of epochs that each comes to."""
        epochs = {setting: run.config["recipe"]["schedule"]["epochs"] for setting, run in self.found.values()}
        return [setting.to_json() | {"trained_epochs": number} for setting, number in epochs.items()]

    def runs(self) -> list[dict[str, Any]]:
        """One record for each run that was found."""
        return [
            {
                "setting": setting.name,
                "name": run.config["name"],
                "method": run.config["method"],
                "seed": run.config["seed"],
                "digest": run.config["digest"],
                "commit": run.config["commit"],
                "threads": run.config["sessions"][-1]["threads"],
                "seconds": round(sum(epoch["seconds"] for epoch in run.history), 1),
            }
            for setting, run in self.found.values()
        ]


def _belongs(run: Run, part: Part) -> bool:
    """Whether a run is just what the part asks for, whatever its seed."""
    asked = part.setting.config(part.method, run.config["seed"]).to_json()
    return all(run.config.get(name) == value for name, value in asked.items())
