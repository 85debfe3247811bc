"""An earlier result in the same folder: its setting is checked, and its records of runs are kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tailmask._util.messages import UserError, listing
from tailmask.paper.request import Request
from tailmask.runs import Run
from tailmask.runs.config import differences
from tailmask.studies.planned_runs import run_name

__all__ = ["RunKey", "can_be_kept", "is_gone", "recorded_runs", "refuse_loss", "run_key"]

RunKey = tuple[str, str, int]

# The fields of a record, with their types, that a table needs if the run itself is gone. Some published
# results do not have them; their runs must be on disk.
_KEPT: dict[str, Any] = {"measures": dict, "determines": dict, "shape": (list, type(None)), "epochs": int}


def recorded_runs(path: Path, request: Request) -> list[dict[str, Any]]:
    """The records of the runs of the result at `path`, each with its source; empty if there is no result.

    Raises a `UserError` if the result has another setting or the file is no result: neither is overwritten.
    """
    if not path.exists():
        return []
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        found = differences(there["request"], json.loads(json.dumps(request.identity())))
        source = {name: there[name] for name in ("command", "machine", "versions")}
        records = [{"result": source, **record} for record in there["runs"]]
        if not all(map(_is_valid, records)):
            raise ValueError("a run's record is damaged")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} is not a result of tailmask: choose another folder with --out") from error
    if found:
        raise UserError(
            f"{path} was measured in another setting, which differs in {listing(found, limit=3)}: "
            "choose another folder with --out"
        )
    return records


def run_key(record: dict[str, Any]) -> RunKey:
    """The key of a run within a result: setting, method and seed.

    >>> run_key({"setting": "digits", "name": "plm", "seed": 0, "digest": "9b0239c289d05207"})
    ('digits', 'plm', 0)
    """
    return record["setting"], record["name"], record["seed"]


def can_be_kept(record: dict[str, Any]) -> bool:
    """True if a record has everything that a table needs from a run."""
    return record.keys() >= _KEPT.keys()


def is_gone(record: dict[str, Any], *, runs: Path) -> bool:
    """True if the recorded run is not in the folder `runs`, or is incomplete there."""
    return not Run(runs / record["setting"] / run_name(record["name"], record["seed"])).is_complete


def refuse_loss(path: Path, lost: Iterable[dict[str, Any]], *, runs: Path) -> None:
    """Raise a `UserError` if a new result at `path` would lose some runs of the earlier one."""
    names = [f"{record['name']} (seed {record['seed']})" for record in lost]
    if names:
        raise UserError(
            f"{path} has runs that are not in {runs}, and the new result would lose them: "
            f"{listing(names, limit=5)}; name their folder with --runs, or choose another --out"
        )


def _is_valid(record: dict[str, Any]) -> bool:
    """True if all fields that are read from a record have the right type."""
    machine = record["result"]["machine"]
    return (
        all(isinstance(record[name], str) for name in ("setting", "name", "method"))
        and type(record["seed"]) is int
        and isinstance(record["seconds"], (int, float))
        and all(isinstance(record[name], kind) for name, kind in _KEPT.items() if name in record)
        and all(isinstance(value, (int, float, type(None))) for value in record.get("measures", {}).values())
        and {"cpu", "cores", "system"} <= machine.keys()
        and isinstance(record["result"]["versions"], dict)
    )
