"""`tailmask compare`: does it help on your data, where, and how sure is that?"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tailmask.data import DataOptions
from tailmask.errors import UserError
from tailmask.method import DEFAULT_METHODS
from tailmask.study import compare as compare_methods
from tailmask.study import plan_comparison
from tailmask.study.display import Display
from tailmask.study.plan import Setting
from tailmask.study.terminal import open_console, raise_failures
from tailmask.training.config import Precision

if TYPE_CHECKING:
    from tailmask.analysis.outputs import Decision

__all__ = ["compare"]


def compare(
    data: str = "digits",
    /,
    *,
    options: DataOptions,
    methods: list[str] = list(DEFAULT_METHODS),  # noqa: B006 (never changed)
    seeds: int = 3,
    jobs: int | None = None,
    list: bool = False,
    out: Path | None = None,
    baseline: str | None = None,
    tuned_thresholds: bool = False,
    prior_shift: bool = False,
    tune: Literal["rate"] | None = None,
    epochs: int | None = None,
    budget: float = 1.0,
    recipe: str | None = None,
    set: list[str] = [],  # noqa: B006 (the option's name; never changed)
    precision: Precision = "32",
) -> None:
    """Train several methods with several seeds on one data set, compare them on the test set, and make a page
    of it. Runs that are complete are read, those that were interrupted go on; the page is of all runs in the
    folder, also of those that were trained before.

    Args:
        data: name of a data set, or path of your own file
        methods: what to compare: [plm+]LOSS[+cb][+undersample|+classaware][+drw], where LOSS is bce, focal,
            asl, hill, db or ldam; options follow a colon, as in plm:rate=0.05+focal:gamma=2
        seeds: number of seeds, the same for all methods
        jobs: runs at a time, which share the cores; left out, one a GPU or core, at most 8
        list: print one tailmask train command a run, for a cluster's job array, and stop; afterwards the same
            without it reads the runs
        out: folder of the study; left out, tailmask-compare-DATA below the current folder
        baseline: method to compare with; left out, bce or what is nearest to it
        tuned_thresholds: of the rows that decide otherwise by the same outputs, show those with thresholds
            tuned on the validation split; without this and the next, all are shown
        prior_shift: show those with plm's outputs shifted back to the data's own prior
        tune: rate: choose plm's rate on the validation split first
        epochs: number of epochs; the learning rate's course stretches along
        budget: share of the recipe's epochs, as in 0.2; a rate of 0.01 or less grows in proportion
        recipe: name of a recipe, or your own .toml file; left out, the one for the data
        set: fields of the recipe, as in optimizer.lr=0.05 model.name=linear
        precision: 32, or bf16 for mixed precision
        options: the data
    """
    if list:
        if tune is not None:
            raise UserError(
                "--tune chooses a rate from finished runs, which --list does not make: name one of them"
            )
        setting = Setting(data, options, recipe, budget, epochs, tuple(set), precision)
        for run in plan_comparison(setting, methods, seeds=seeds, out=out, baseline=baseline):
            print(run.command)
        return
    command = shlex.join(["tailmask", *sys.argv[1:]])
    extra: dict[Decision, bool] = {"tuned thresholds": tuned_thresholds, "prior shift": prior_shift}
    display = Display(f"compare on {Path(data).name}")
    try:
        study = compare_methods(
            data,
            methods,
            seeds=seeds,
            jobs=jobs,
            out=out,
            baseline=baseline,
            tune=tune,
            recipe=recipe,
            budget=budget,
            epochs=epochs,
            fields=set,
            options=options,
            precision=precision,
            decisions=[name for name, wanted in extra.items() if wanted] or None,
            listener=display,
            command=command,
        )
    except KeyboardInterrupt:
        print(f"stopped; what is done is kept, to go on: {command}", file=sys.stderr)
        raise
    if study.comparison is not None:
        from tailmask.analysis.terminal import print_comparison

        print_comparison(study.comparison, open_console())
        print(f"report in {study.report_path}")
    raise_failures(study.failures)
