"""Runs that are in a folder already: which are complete, and whether they are what a setting would make."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tailmask._util.messages import UserError, listing
from tailmask.runs import ResolvedSetting, Run
from tailmask.runs.config import determined_by, differences
from tailmask.studies.planned_runs import run_name

__all__ = ["check_recipe", "complete_runs", "other_runs", "recipe_differences"]


def complete_runs(folder: Path) -> list[Run]:
    """The complete runs in a folder that are called by their method and seed, but for damaged ones."""
    return [run for run in _runs(folder) if _can_stand_together(run) and _has_own_name(run)]


def check_recipe(folder: Path, setting: ResolvedSetting) -> None:
    """Raise a `UserError` where a complete run in a folder is not what the setting makes of it now.

    The recipe's file may have changed since, or one of tailmask's own.
    """
    for run in complete_runs(folder):
        found = recipe_differences(run.config, setting, data=run.config["determines"].get("data"))
        if found:
            raise UserError(
                f"{run.folder} was trained by another recipe, which differs in {listing(found, limit=3)}: "
                "choose another folder with --out"
            )


def other_runs(folder: Path, runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """The complete runs in a folder besides `runs`: those that belong in a table with them, and the rest."""
    known = {run.folder for run in runs}
    others = [run for run in _runs(folder) if run.folder not in known]
    belonging = [run for run in others if _can_stand_together(runs[0], run) and _has_own_name(run)]
    return belonging, [run for run in others if run not in belonging]


def recipe_differences(record: Mapping[str, Any], setting: ResolvedSetting, *, data: Any) -> list[str]:
    """What differs between a run and what the setting would train in its place on `data`."""
    asked = determined_by(setting.config(record["name"], record["seed"])) | {"data": data}
    there = record["determines"]
    return differences({name: there.get(name) for name in asked}, json.loads(json.dumps(asked)))


def _runs(folder: Path) -> list[Run]:
    return [run for run in map(Run, sorted(folder.glob("*_seed=*"))) if run.is_complete]


def _can_stand_together(*runs: Run) -> bool:
    """Whether the runs are undamaged, and may stand in one table."""
    from tailmask.comparison import arrange

    try:
        arrange(runs)
    except UserError:
        return False
    return True


def _has_own_name(run: Run) -> bool:
    return run.folder.name == run_name(run.config["name"], run.config["seed"])
