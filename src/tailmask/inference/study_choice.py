"""The run of a study to predict with, and its decision: chosen by `compare`, or named by the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tailmask._util.messages import UserError, listing, nearest
from tailmask._util.result_formats import COMPARISON
from tailmask.runs.reader import Run

__all__ = ["ChosenRun", "choose_run"]


class ChosenRun(NamedTuple):
    """A run's folder or a model's file, and the decision that its study chose; None without a study."""

    path: Path
    decision: str | None = None


def choose_run(path: Path, name: str | None = None) -> ChosenRun:
    """The run to predict with: the path itself, or for a study the chosen run or the named one.

    `name` is the name of a run's folder, such as `plm_seed=0`, or of a method: its first seed is used.

    >>> choose_run(Path("runs/mine"))
    ChosenRun(path=PosixPath('runs/mine'), decision=None)
    """
    if not (path / "study.json").is_file():
        if name is not None:
            raise UserError(f"--run {name} needs the folder of a study, got {path}: leave it out")
        return ChosenRun(path)
    if name is not None:
        return ChosenRun(_named(path, name))
    chosen = _read_choice(path)
    run = next((run.folder for run in _complete_runs(path) if run.folder.name == chosen["run"]), None)
    if run is None:
        raise UserError(
            f"{path} has chosen {chosen['run']}, but this run is missing: name another with --run"
        )
    return ChosenRun(run, chosen["decision"])


def _complete_runs(study: Path) -> list[Run]:
    """The complete runs of a study, also ensembles, except the trials of λ."""
    found = [path for path in sorted(study.glob("*/*_seed=*")) if path.parent.name != "tuning"]
    return [run for run in map(Run, found) if run.is_complete]


def _named(study: Path, name: str) -> Path:
    runs = _complete_runs(study)
    own = [run for run in runs if run.folder.name == name]
    own += [run for run in runs if name in (run.config.get("name"), run.config.get("method"))]
    if not own:
        raise UserError(f"{study} has no run {name!r}: {nearest(name, _names(runs))}")
    return min(own, key=lambda run: int(run.config.get("seed", 0))).folder


def _names(runs: list[Run]) -> list[str]:
    return list(
        dict.fromkeys([*(str(run.config.get("name")) for run in runs), *(r.folder.name for r in runs)])
    )


def _read_choice(folder: Path) -> dict[str, Any]:
    path = folder / "comparison.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or record.get("format") != COMPARISON:
            raise ValueError(f"its format is not {COMPARISON!r}")
        chosen = record["comparison"].get("chosen")
    except FileNotFoundError:
        raise UserError(
            f"{folder} has no comparison.json: finish the study, or name a run with --run"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    if chosen is None:
        runs = listing(run.folder.name for run in _complete_runs(folder))
        raise UserError(
            f"{folder} has no chosen run, because it has no validation data: name one with --run ({runs})"
        )
    valid = isinstance(chosen, dict) and all(isinstance(chosen.get(k), str) for k in ("run", "decision"))
    if not valid or Path(chosen["run"]).name != chosen["run"]:
        raise UserError(f"{path} has no valid choice: name a run with --run")
    return dict(chosen)
