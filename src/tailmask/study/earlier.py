"""A result that is there already: what it must share with a new one, and what its record tells of runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tailmask.errors import UserError, listing
from tailmask.files import slug
from tailmask.study.plan import PlannedRun
from tailmask.study.request import Request
from tailmask.training import Run
from tailmask.training.config import differences

__all__ = ["RunKey", "recorded_runs", "refuse_losses", "run_key"]

RunKey = tuple[str, str, int]

# What it takes to put a run into a table by its record alone; results of earlier versions lack it.
_CARRIED = {"measures", "determines", "shape", "epochs"}


def recorded_runs(path: Path, request: Request) -> list[dict[str, Any]]:
    """The runs on the record of the result at `path`, with what made that result; none where there is none.

    Refuses a result of another setting, which is not to be overwritten, and a file that is no result.
    """
    if not path.exists():
        return []
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        found = differences(there["request"], json.loads(json.dumps(request.identity())))
        source = {name: there[name] for name in ("command", "machine", "versions")}
        records = [{"result": source, **record} for record in there["runs"]]
        _ = [run_key(record) for record in records]
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


def refuse_losses(
    path: Path,
    records: Sequence[dict[str, Any]],
    planned: Sequence[PlannedRun],
    *,
    runs: Path,
    whole: bool,
) -> None:
    """Raise a `UserError` where the result at `path` rests on runs that a new one would be without.

    Where `whole`, as for a figure, it takes the runs themselves; else, for a table, the measures on record.
    """
    coming = {(run.setting.name, run.method, run.seed) for run in planned}
    lost = [
        f"{record['name']} (seed {record['seed']})"
        for record in records
        if run_key(record) not in coming
        and (whole or not record.keys() >= _CARRIED)
        and not Run(runs / record["setting"] / slug(f"{record['name']}_seed={record['seed']}")).is_complete
    ]
    if lost:
        raise UserError(
            f"{path} rests on runs that are not in {runs}, and would be overwritten without them: "
            f"{listing(lost, limit=5)}; name the folder that has them with --runs, or choose another --out"
        )
