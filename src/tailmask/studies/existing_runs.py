"""Existing runs in a folder: the complete ones, and how they differ from a setting."""

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
    """The complete, undamaged runs in a folder that are named after their method and seed."""
    return [run for run in _runs(folder) if _can_stand_together(run) and _has_own_name(run)]


def check_recipe(folder: Path, setting: ResolvedSetting) -> None:
    """Raise a `UserError` if a complete run in a folder was trained with another recipe than the setting's.

    The recipe's file may have changed since the run, or tailmask's own recipe.
    """
    for run in complete_runs(folder):
        found = recipe_differences(run.config, setting, data=run.config["determines"].get("data"))
        if found:
            raise UserError(
                f"{run.folder} was trained with another recipe, which differs in {listing(found, limit=3)}: "
                "choose another folder with --out"
            )


def other_runs(folder: Path, runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """The other complete runs in a folder: those that can be compared with `runs`, and the rest."""
    known = {run.folder for run in runs}
    others = [run for run in _runs(folder) if run.folder not in known]
    belonging = [run for run in others if _can_stand_together(runs[0], run) and _has_own_name(run)]
    return belonging, [run for run in others if run not in belonging]


def recipe_differences(record: Mapping[str, Any], setting: ResolvedSetting, *, data: Any) -> list[str]:
    """The names of the fields in which a run differs from the run that the setting would make on `data`."""
    asked = determined_by(setting.config(record["name"], record["seed"])) | {"data": data}
    there = record["determines"]
    return differences({name: there.get(name) for name in asked}, json.loads(json.dumps(asked)))


def _runs(folder: Path) -> list[Run]:
    return [run for run in map(Run, sorted(folder.glob("*_seed=*"))) if run.is_complete]


def _can_stand_together(*runs: Run) -> bool:
    """True if the runs are undamaged and can be in one table."""
    from tailmask.comparison import arrange

    try:
        arrange(runs)
    except UserError:
        return False
    return True


def _has_own_name(run: Run) -> bool:
    return run.folder.name == run_name(run.config["name"], run.config["seed"])
