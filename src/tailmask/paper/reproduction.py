"""`reproduce`: a table or figure of the paper, with the paper's numbers beside the measured ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailmask._util.files import write_json, write_text
from tailmask._util.messages import UserError, check_count
from tailmask._util.provenance import provenance
from tailmask._util.result_formats import RESULT
from tailmask._util.serialization import to_mapping
from tailmask.data.facts import DataError
from tailmask.paper.earlier_result import is_gone, recorded_runs, refuse_loss, run_key
from tailmask.paper.items import build_item
from tailmask.paper.request import Answer, PaperItem, Request
from tailmask.paper.runs_of_result import RunRecords
from tailmask.report.charts.svg_output import save_svg
from tailmask.report.result_markdown import render_markdown
from tailmask.studies.planned_runs import PlannedRun, plan_runs
from tailmask.studies.worker_pool import Failure, Listener, Pool, check_extras, choose_jobs, num_missing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Reproduction", "plan_reproduction", "reproduce"]


@dataclass(frozen=True)
class Reproduction:
    """The result of `reproduce`: plain JSON, the figure if there is one, and the files of both.

    `result["tables"]` has the tables. There are no files if all runs failed.
    """

    result: dict[str, Any]
    figure: Figure | None
    paths: tuple[Path, ...]
    failures: tuple[Failure, ...] = ()


def reproduce(
    item: str,
    request: Request | None = None,
    *,
    seeds: int = 1,
    jobs: int | None = None,
    out: Path | str = "results",
    runs: Path | str = "runs",
    listener: Listener | None = None,
    command: str | None = None,
) -> Reproduction:
    """Make a table or figure of the paper. Missing runs are trained.

    All complete runs of the same setting count, including those with other seeds and methods. So a table can
    be filled row by row, and some rows can have more seeds. Runs of other settings (budget,
    recipe, data) never count, and a result of another setting is not overwritten. If runs are gone, a table
    keeps their numbers from the earlier result in `out`; a figure that needs them is not overwritten.

    Args:
        item: `table1` to `table7`, `figure1` to `figure8`, `discussion-precision`, `discussion-imbalance`.
        request: The data, the budget and other settings; None: the paper's data at the full budget.
        seeds: Number of seeds, counted from 0.
        jobs: Number of runs at a time; None: one per GPU, else one per core, at most 8.
        out: Folder for the result: `<item>.json`, `<item>.md` and, for figures, `<item>.svg`.
        runs: Folder for the runs. All tables and figures share it.
        listener: Receives the progress.
        command: The command line to record.

    >>> import tempfile
    >>> made = reproduce("figure5", out=tempfile.mkdtemp())
    >>> [cell["mean"] for cell in made.result["tables"][0]["rows"][1]["cells"]]
    [1.0, 1.0, 1.0, 2.0]
    """
    request = request or Request()
    check_extras()
    path = Path(out) / f"{item}.json"
    earlier = recorded_runs(path, request)
    built = build_item(item, request)
    planned = _plan(built, seeds=seeds, runs=Path(runs))
    there = _kept(path, built, planned, earlier, runs=Path(runs))
    failures = _make(item, request, planned, there, jobs, listener or Listener()) if planned else []
    records = RunRecords(
        Path(runs), recorded_runs(path, request)
    )  # read again: other processes may have added rows
    with _data_hint(item, request):
        answer = built.answer(records)
    records.check(path)
    result = _result(item, built, answer, records, request) | {"command": command}
    paths = _write(path, result, answer) if records.found or not planned else ()
    return Reproduction(result, answer.figure, paths, tuple(failures))


def plan_reproduction(
    item: str, request: Request | None = None, *, seeds: int = 1, runs: Path | str = "runs"
) -> list[PlannedRun]:
    """The runs that `reproduce` would make or read, for a scheduler that makes them one by one.

    >>> plan_reproduction("figure2", Request(budget=0.2))[0].command
    'tailmask train multimnist --budget 0.2 --method plm --seed 0 --out runs/multimnist_budget=0.2/plm_seed=0'
    """
    return _plan(build_item(item, request or Request()), seeds=seeds, runs=Path(runs))


def _plan(built: PaperItem, *, seeds: int, runs: Path) -> list[PlannedRun]:
    check_count("seeds", seeds)
    planned = [
        run
        for seed in range(seeds)
        for setting, method in built.arms
        for run in plan_runs(setting, [method], [seed], folder=runs / setting.name)
    ]
    for run in planned:
        _ = run.config  # raises an error if a name or a value is wrong
    return planned


def _kept(
    path: Path, built: PaperItem, planned: Sequence[PlannedRun], earlier: list[dict[str, Any]], *, runs: Path
) -> RunRecords:
    """The records of runs that are not planned. Raises errors now that would otherwise come at the end."""
    coming = {(run.setting.name, run.config.name, run.config.seed) for run in planned}
    others = [record for record in earlier if run_key(record) not in coming]
    records = RunRecords(runs, others)
    if built.from_records:
        built.answer(records)
        records.check(path)
    else:
        refuse_loss(path, [record for record in others if is_gone(record, runs=runs)], runs=runs)
    return records


def _make(
    item: str,
    request: Request,
    planned: Sequence[PlannedRun],
    there: RunRecords,
    jobs: int | None,
    listener: Listener,
) -> list[Failure]:
    listener.prepare()
    with Pool(choose_jobs(jobs, num_runs=len(planned)), num_runs=num_missing(planned)) as pool:
        with _data_hint(item, request):
            facts = pool.check(planned)
        for setting, found in facts.items():
            there.check_data(setting, found.source)
        return pool.make(planned, listener)


@contextlib.contextmanager
def _data_hint(item: str, request: Request) -> Iterator[None]:
    """Add a hint to a `DataError` about the paper's data: other data can be used."""
    try:
        yield
    except DataError as error:
        if request.data is not None:
            raise
        raise UserError(f"{error}; or make {item} with other data, as in --data digits") from error


def _result(
    item: str, built: PaperItem, answer: Answer, records: RunRecords, request: Request
) -> dict[str, Any]:
    share = f", at budget {request.budget:g}" if built.arms and request.budget != 1.0 else ""
    return {
        "format": RESULT,
        "item": item,
        "title": f"{built.title}{share}",
        "budget": request.budget,
        "request": request.identity(),
        **provenance(),
        **records.to_json(),
        "tables": to_mapping(answer.tables),
        "figure": None if answer.figure is None else f"{item}.svg",
        "notes": list(answer.notes),
    }


def _write(path: Path, result: dict[str, Any], answer: Answer) -> tuple[Path, ...]:
    """Write the files of the result; the JSON comes last, because it marks the result as complete."""
    markdown, figure = path.with_suffix(".md"), path.with_suffix(".svg")
    if answer.figure is not None:
        save_svg(answer.figure, figure)
    write_text(markdown, render_markdown(result))
    write_json(path, result)
    return (path, markdown, figure) if answer.figure is not None else (path, markdown)
