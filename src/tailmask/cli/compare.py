"""`tailmask compare`: train several methods on your data and compare them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from tailmask._util.messages import UserError
from tailmask._util.precision import AskedPrecision
from tailmask.cli.data_options import DATA_DEFAULTS
from tailmask.cli.method_help import with_method_help
from tailmask.cli.model_option import apply_model
from tailmask.data import DataOptions

if TYPE_CHECKING:
    from tailmask.comparison.run_outputs import Decision

__all__ = ["compare"]


@with_method_help
def compare(
    data: str = "digits",
    /,
    *,
    methods: Sequence[str] = (),
    seeds: int = 3,
    jobs: int | None = None,
    only_list: Annotated[bool, Parameter(name="--list")] = False,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    baseline: str | None = None,
    tuned_thresholds: bool = False,
    prior_shift: bool = False,
    decide: str = "f1",
    tune: Literal["rate"] | None = None,
    epochs: int | None = None,
    budget: float = 1.0,
    recipe: str | None = None,
    model: str | None = None,
    fields: Annotated[Sequence[str], Parameter(name="--set")] = (),
    precision: AskedPrecision = "32",
    folds: int | None = None,
    options: DataOptions = DATA_DEFAULTS,
) -> None:
    """Train several methods with several seeds on one data set and compare them on the test set.

    Args:
        data: name of a data set, or path of your own file
        methods: methods to compare, each METHOD_HELP [default: bce plm plm:adapt=prevalence; for tables and
            texts also linear trees boost ensemble]
        seeds: number of seeds, the same for all methods
        jobs: number of runs at the same time [default: one per GPU, else one per core, at most 8]
        only_list: print one tailmask train command per run, for a cluster's job array, and stop; when the
            runs are finished, the same command without --list reads them
        out: folder of the study [default: tailmask-compare-DATA]
        baseline: method to compare with [default: bce, else the first method without masking]
        tuned_thresholds: show the extra rows with thresholds tuned on the validation split [default: show all
            extra rows]
        prior_shift: show the extra rows with plm's outputs shifted back to the prevalence of the data
        decide: goal of the thresholds: f1, precision=0.9, recall=0.8, cost=5 (a miss costs five false
            alarms) or top=3 (three labels per sample)
        tune: choose this option of plm on the validation split first
        epochs: number of epochs; the learning rate schedule is stretched to it
        budget: share of the recipe's epochs, as in 0.2; plm's rate grows in proportion if it is 0.01 or less
        recipe: name of a recipe, or your own .toml file [default: the recipe for the data]
        model: network: resnet12, resnet32, resnet50, cnn, mlp, linear, or package.module:factory of your own;
            or a pretrained model whose features become the inputs: hf:NAME_OR_FOLDER, timm:NAME
        fields: fields of the recipe, as in optimizer.lr=0.05 model.name=linear
        precision: floating-point precision of training; bf16 is mixed precision, auto is bf16 if the
            processor or the GPU has instructions for it, else 32
        folds: number of folds to cross-fit, 1 for one validation split [default: 5 for tables with fewer than
            20,000 rows, else 1]
    """
    from tailmask.runs import Setting
    from tailmask.studies import compare as compare_methods
    from tailmask.studies import plan_comparison
    from tailmask.studies.progress_display import Display
    from tailmask.studies.worker_pool import raise_failures

    options, fields = apply_model(model, options, fields)
    if only_list:
        if tune is not None:
            raise UserError(
                "--tune needs finished runs, but --list only prints commands: leave one of them out"
            )
        setting = Setting(data, options, recipe, budget, epochs, tuple(fields), precision, folds=folds)
        for run in plan_comparison(setting, methods or None, seeds=seeds, out=out, baseline=baseline):
            print(run.command)
        return
    command = shlex.join(["tailmask", *sys.argv[1:]])
    extra: dict[Decision, bool] = {"tuned thresholds": tuned_thresholds, "prior shift": prior_shift}
    display = Display(f"compare on {Path(data).name}")
    try:
        study = compare_methods(
            data,
            methods or None,
            seeds=seeds,
            jobs=jobs,
            out=out,
            baseline=baseline,
            tune=tune,
            recipe=recipe,
            budget=budget,
            epochs=epochs,
            fields=fields,
            options=options,
            precision=precision,
            folds=folds,
            decisions=[name for name, wanted in extra.items() if wanted] or None,
            decide=decide,
            listener=display,
            command=command,
        )
    except KeyboardInterrupt:
        print(f"stopped; finished runs are kept; to resume: {command}", file=sys.stderr)
        raise
    if study.comparison is not None:
        from tailmask.report.comparison_terminal import print_comparison
        from tailmask.report.result_terminal import open_console

        print_comparison(study.comparison, open_console())
        print(f"report in {study.report_path}")
        if study.next_command is not None:
            print(f"next: {study.next_command}")
    raise_failures(study.failures)
