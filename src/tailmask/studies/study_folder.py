"""The folder of a comparison. It belongs to one study; that study can be resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tailmask._util.files import write_json
from tailmask._util.messages import UserError
from tailmask._util.result_formats import STUDY
from tailmask.data.facts import DataFacts
from tailmask.runs.config import differences
from tailmask.runs.folder import refuse_another, refuse_other_files
from tailmask.runs.setting import ResolvedSetting, Setting, without_places

__all__ = ["begin_study", "check_study"]


def check_study(folder: Path, setting: Setting) -> Setting:
    """Raise a `UserError` unless the folder is new, empty, or holds a study with the same setting.

    Returns the setting, with the study's precision if the request leaves it open. Methods and seeds may
    differ: a study can get more of them later.
    """
    if not (folder / "study.json").is_file():
        refuse_other_files(folder, "study")
        return setting
    there = _read_setting(folder / "study.json")
    setting = setting.keep_precision(there.get("precision", "32"))
    asked = setting.identity()
    if asked["epochs"] is None:  # the recipe's number depends on the data: `begin_study` compares it
        del there["epochs"], asked["epochs"]
    _refuse_differences(folder, there, asked)
    return setting


def begin_study(folder: Path, setting: ResolvedSetting, facts: DataFacts) -> None:
    """Write `study.json`, or check that the study there has the same setting, epochs and data."""
    identity = setting.asked.identity() | {"epochs": setting.recipe.schedule.epochs}
    path = folder / "study.json"
    if path.is_file():
        _refuse_differences(folder, _read_setting(path), identity)
        _refuse_differences(folder, _read(path).get("source", {}), facts.source)
    else:
        write_json(path, {"format": STUDY, "setting": identity, "source": facts.source})


def _refuse_differences(folder: Path, there: dict[str, Any], asked: dict[str, Any]) -> None:
    refuse_another(folder, "study", differences(there, json.loads(json.dumps(asked))))


def _read_setting(path: Path) -> dict[str, Any]:
    try:
        return without_places(_read(path)["setting"])
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} has no valid setting: was it written by tailmask?") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    if not isinstance(record, dict) or record.get("format") != STUDY:
        raise UserError(f"{path} must have the format {STUDY!r}: was it written by tailmask?")
    return record
