"""`tailmask reproduce`: a table or figure of the paper, beside the paper's numbers."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tailmask.data import DataOptions
from tailmask.study import Request, plan_reproduction
from tailmask.study import reproduce as reproduce_target
from tailmask.study.display import Display
from tailmask.study.terminal import raise_failures, show_result
from tailmask.training.config import Precision

__all__ = ["reproduce"]


def reproduce(
    target: str,
    /,
    *,
    options: DataOptions,
    budget: float = 1.0,
    seeds: int = 1,
    jobs: int | None = None,
    list: bool = False,
    methods: list[str] = [],  # noqa: B006 (never changed)
    imbalance: list[float] = [],  # noqa: B006
    data: str | None = None,
    out: Path = Path("results"),
    runs: Path = Path("runs"),
    recipe: str | None = None,
    set: list[str] = [],  # noqa: B006
    precision: Precision = "32",
) -> None:
    """Make a table or figure of the paper: table1 to table7, figure1 to figure8, discussion-precision,
    discussion-imbalance. Runs that are complete are read, those that were interrupted go on.

    Args:
        target: table or figure of the paper, by its own numbering
        budget: share of the recipes' epochs, as in 0.2; a rate of 0.01 or less grows in proportion
        seeds: number of seeds
        jobs: runs at a time, which share the cores; left out, one a GPU or core, at most 8
        list: print one tailmask train command a run, for a cluster's job array, and stop
        methods: rows to train; left out, the paper's; others become rows of their own
        imbalance: table3, table4, figure3: imbalances to train; left out, all
        data: other data to make the same of, by name or path; left out, the paper's
        out: folder of the result
        runs: folder of the runs, which all targets share
        recipe: name of a recipe, or your own .toml file; left out, the one for the data
        set: fields of the recipe, as in optimizer.weight_decay=5e-4
        precision: 32, or bf16 for mixed precision
        options: choices about the data
    """
    request = Request(
        data,
        options,
        recipe,
        budget,
        fields=tuple(set),
        methods=tuple(methods),
        imbalances=tuple(imbalance),
        precision=precision,
    )
    if list:
        for run in plan_reproduction(target, request, seeds=seeds, runs=runs):
            print(run.command)
        return
    command = shlex.join(["tailmask", *sys.argv[1:]])
    try:
        made = reproduce_target(
            target,
            request,
            seeds=seeds,
            jobs=jobs,
            out=out,
            runs=runs,
            listener=Display(target),
            command=command,
        )
    except KeyboardInterrupt:
        print(f"stopped; what is done is kept in {runs}, to go on: {command}", file=sys.stderr)
        raise
    if made.paths:
        show_result(made.result)
        print(f"result in {', '.join(map(str, made.paths))}")
    raise_failures(made.failures)
