"""Folders that belong to one run, study or fit; writing a run folder: begin a run, or resume one."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tailmask._util.files import write_json
from tailmask._util.messages import UserError, listing
from tailmask._util.provenance import environment
from tailmask._util.serialization import from_mapping
from tailmask.runs.config import differences
from tailmask.runs.reader import Run
from tailmask.runs.recipe import ScheduleRecipe

__all__ = ["begin_session", "check_folder", "end_session", "refuse_another", "refuse_other_files"]

# Fields of the schedule that scale with the number of epochs.
_STRETCHED = ("recipe.schedule.warmup ", "recipe.schedule.milestones ")


def check_folder(folder: Path, determining: dict[str, Any]) -> Run:
    """The run in a folder, which may be empty; refuses another configuration's run and other files."""
    run = Run(folder)
    if run.exists:
        refuse_another(folder, "run", _differences(run.config.get("determines", {}), determining))
    else:
        refuse_other_files(folder, "run")
    return run


def refuse_another(folder: Path, what: str, found: Sequence[str]) -> None:
    """Raise a `UserError` if the run, study or fit in a folder differs from the requested one.

    >>> refuse_another(Path("mine"), "run", ["seed (0, not 1)"])
    Traceback (most recent call last):
    tailmask._util.messages.UserError: mine holds another run, which differs in seed (0, not 1): ...
    """
    if found:
        raise UserError(
            f"{folder} holds another {what}, which differs in {listing(found, limit=3)}: "
            "choose another folder with --out"
        )


def refuse_other_files(folder: Path, what: str) -> None:
    """Raise a `UserError` unless a folder for a new run, study or fit is absent or empty."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: choose another folder with --out")
    if folder.is_dir() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
        raise UserError(f"{folder} holds files, but no {what}: choose another folder with --out")


def begin_session(folder: Path, record: dict[str, Any], *, epochs_done: int, threads: int) -> None:
    """Write run.json, or add a session to the existing one."""
    for leftover in folder.glob(".*.partial"):  # from a process that was killed during a write
        leftover.unlink(missing_ok=True)
    run = Run(folder)
    config = run.config if run.exists else record | environment()
    session = {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "resumed_after_epoch": epochs_done,
        "threads": threads,
    }
    write_json(folder / "run.json", config | {"sessions": [*config.get("sessions", []), session]})


def end_session(folder: Path, *, seconds: float) -> None:
    """Add the duration to the last session in run.json."""
    config = Run(folder).config
    *earlier, last = config["sessions"]
    write_json(folder / "run.json", config | {"sessions": [*earlier, last | {"seconds": round(seconds, 1)}]})


def _differences(there: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """The differences, by names that users know, without those that follow from the number of epochs."""
    found = differences(there, asked)
    if _is_stretched(there, asked):
        found = [text for text in found if not text.startswith(_STRETCHED)]
    return [text.removeprefix("recipe.").replace("schedule.epochs (", "epochs (") for text in found]


def _is_stretched(there: dict[str, Any], asked: dict[str, Any]) -> bool:
    """True if the schedules are the same except for the number of epochs."""
    try:
        old, new = (from_mapping(ScheduleRecipe, each["recipe"]["schedule"]) for each in (there, asked))
    except (KeyError, TypeError, UserError):
        return False
    old_course, new_course = ((each.warmup, *each.milestones) for each in (old.stretched(new.epochs), new))
    return (
        old.epochs != new.epochs
        and len(old_course) == len(new_course)
        and all(math.isclose(*pair, abs_tol=1e-3) for pair in zip(old_course, new_course, strict=True))
    )
