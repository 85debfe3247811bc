"""`tailmask reproduce`: a table or figure of the paper, with the paper's numbers and the measured ones."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tailmask._util.precision import Precision
from tailmask.cli.data_options import DATA_DEFAULTS
from tailmask.data import DataOptions

__all__ = ["reproduce"]


def reproduce(
    item: str,
    /,
    *,
    budget: float = 1.0,
    seeds: int = 1,
    jobs: int | None = None,
    only_list: Annotated[bool, Parameter(name="--list")] = False,
    methods: Sequence[str] = (),
    imbalance: Sequence[float] = (),
    data: str | None = None,
    out: Annotated[Path, Parameter(alias="-o")] = Path("results"),
    runs: Path = Path("runs"),
    recipe: str | None = None,
    fields: Annotated[Sequence[str], Parameter(name="--set")] = (),
    precision: Precision = "32",
    options: DataOptions = DATA_DEFAULTS,
) -> None:
    """Reproduce a table or figure of the paper.

    Args:
        item: table1 to table7, figure1 to figure8, discussion-precision or discussion-imbalance
        budget: share of the recipes' epochs, as in 0.2; plm's rate grows in proportion if it is 0.01 or less
        seeds: number of seeds
        jobs: number of runs at the same time [default: one per GPU, else one per core, at most 8]
        only_list: print one tailmask train command per run, for a cluster's job array, and stop
        methods: methods to train; methods that are not in the paper get new rows [default: the paper's
            methods]
        imbalance: imbalances to train for table3, table4 and figure3 [default: all]
        data: name or path of other data [default: the paper's data]
        out: folder of the result
        runs: folder of the runs; all tables and figures share it
        recipe: name of a recipe, or your own .toml file [default: the recipe for the data]
        fields: fields of the recipe, as in optimizer.weight_decay=5e-4
        precision: floating-point precision of training; bf16 is mixed precision
    """
    from tailmask.paper import Request, plan_reproduction
    from tailmask.paper import reproduce as reproduce_item
    from tailmask.report.result_terminal import show_result
    from tailmask.studies.progress_display import Display
    from tailmask.studies.worker_pool import raise_failures

    request = Request(
        data,
        options,
        recipe,
        budget,
        fields=tuple(fields),
        methods=tuple(methods),
        imbalances=tuple(imbalance),
        precision=precision,
    )
    if only_list:
        for run in plan_reproduction(item, request, seeds=seeds, runs=runs):
            print(run.command)
        return
    command = shlex.join(["tailmask", *sys.argv[1:]])
    try:
        made = reproduce_item(
            item,
            request,
            seeds=seeds,
            jobs=jobs,
            out=out,
            runs=runs,
            listener=Display(item),
            command=command,
        )
    except KeyboardInterrupt:
        print(f"stopped; finished runs are kept in {runs}; to resume: {command}", file=sys.stderr)
        raise
    if made.paths:
        show_result(made.result)
        print(f"result in {', '.join(map(str, made.paths))}")
    raise_failures(made.failures)
