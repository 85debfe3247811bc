"""A result that is there already: what it must share with a new one, and what its record tells of runs."""

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

# The fields that put a run into a table by its record alone, and their types. Some published results do not
# have them; their runs must be on disk.
_KEPT: dict[str, Any] = {"measures": dict, "determines": dict, "shape": (list, type(None)), "epochs": int}


def recorded_runs(path: Path, request: Request) -> list[dict[str, Any]]:
    """The runs on the record of the result at `path`, each with that result; none where there is none.

    Refuses a result of another setting, which is not to be overwritten, and a file that is no result.
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
    """What tells the runs of a result apart: setting, method and seed.

    >>> run_key({"setting": "digits", "name": "plm", "seed": 0, "digest": "9b0239c289d05207"})
    ('digits', 'plm', 0)
    """
    return record["setting"], record["name"], record["seed"]


def can_be_kept(record: dict[str, Any]) -> bool:
    """Whether a record says enough of a run to put it into a table."""
    return record.keys() >= _KEPT.keys()


def is_gone(record: dict[str, Any], *, runs: Path) -> bool:
    """Whether the run on record is not in the folder `runs`, or not complete."""
    return not Run(runs / record["setting"] / run_name(record["name"], record["seed"])).is_complete


def refuse_loss(path: Path, lost: Iterable[dict[str, Any]], *, runs: Path) -> None:
    """Raise a `UserError` where a new result at `path` would be without some runs of the one there."""
    names = [f"{record['name']} (seed {record['seed']})" for record in lost]
    if names:
        raise UserError(
            f"{path} rests on runs that are not in {runs}, and would be overwritten without them: "
            f"{listing(names, limit=5)}; name the folder that has them with --runs, or choose another --out"
        )


def _is_valid(record: dict[str, Any]) -> bool:
    """Whether all that is read of a record is of the right type."""
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
