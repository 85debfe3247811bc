"""`tailmask fit`: the best model for a file, in a given time."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from tailmask._util.precision import AskedPrecision
from tailmask.cli.data_options import DATA_DEFAULTS
from tailmask.cli.method_help import with_method_help
from tailmask.cli.model_option import apply_model
from tailmask.data import DataOptions

if TYPE_CHECKING:
    from tailmask.cli.progress_bar import RunProgress
    from tailmask.fitting import FitResult

__all__ = ["fit"]


@with_method_help
def fit(
    data: str,
    /,
    *,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    minutes: float | None = None,
    methods: Sequence[str] = (),
    folds: int | None = None,
    seed: int = 0,
    decide: str = "f1",
    no_importance: bool = False,
    epochs: int | None = None,
    precision: AskedPrecision = "auto",
    recipe: str | None = None,
    model: str | None = None,
    fields: Annotated[Sequence[str], Parameter(name="--set")] = (),
    form: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
    options: DataOptions = DATA_DEFAULTS,
) -> None:
    """Train the best model for your data.

    Args:
        data: name of a data set, or path of your own file
        out: folder of the model [default: tailmask-fit-DATA]
        minutes: time for training; a method that would not finish in time is left out [default: no limit]
        methods: methods to train and combine, each METHOD_HELP [default: linear trees boost bce;
            for images bce plm plm:adapt=prevalence]
        folds: number of folds to cross-fit [default: 5 for tables with fewer than 20,000 rows, else 1]
        seed: seed of folds, weights and masks
        decide: goal of the thresholds: f1, precision=0.9, recall=0.8, cost=5 (a miss costs five false
            alarms) or top=3 (three labels per row)
        no_importance: leave out the permutation importance of the features
        epochs: number of epochs of the networks
        precision: floating-point precision of the networks; bf16 is mixed precision, auto is bf16
            if the processor or the GPU has instructions for it, else 32
        recipe: name of a recipe for the networks, or your own .toml file [default: the recipe for the data]
        model: network, or a pretrained model whose features become the inputs: hf:NAME_OR_FOLDER, timm:NAME
        fields: fields of the recipe, as in optimizer.lr=0.05
        form: format of the printed result
    """
    from tailmask.cli.progress_bar import RunProgress, notes
    from tailmask.fitting import fit as fit_model

    options, fields = apply_model(model, options, fields)
    folder = out or Path(f"tailmask-fit-{Path(data).stem}")
    shown: list[RunProgress] = []
    printed: set[str] = set()

    def listen(method: str) -> RunProgress:
        shown.append(RunProgress(f"{method} on {Path(data).name}", printed=printed))
        return shown[-1]

    try:
        with notes(RunProgress("fit", printed=printed)):
            result = fit_model(
                data,
                minutes=minutes,
                methods=methods or None,
                out=folder,
                options=options,
                folds=folds,
                recipe=recipe,
                fields=fields,
                epochs=epochs,
                precision=precision,
                seed=seed,
                decide=decide,
                importance=not no_importance,
                listener=listen,
            )
    except KeyboardInterrupt:
        for progress in shown:
            progress.end()
        command = shlex.join(["tailmask", *sys.argv[1:]])
        print(f"stopped; finished methods are kept in {folder}; to resume: {command}", file=sys.stderr)
        raise
    if form == "json":
        print(json.dumps(result.to_json(), ensure_ascii=False))
    else:
        _show(result)


def _show(result: FitResult) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Out-of-fold scores in %, test scores in brackets", title_justify="left")
    table.add_column("method")
    for name in ("F1", "F1, rarest third", "mAP", "seconds"):
        table.add_column(name, justify="right")
    for arm in result.leaderboard:
        own, test = arm.out_of_fold, arm.test
        pairs = ((own.f1, test.f1), (own.f1_tail, test.f1_tail), (own.map, test.map))
        table.add_row(arm.method, *(f"{_percent(a)} ({_percent(b)})" for a, b in pairs), f"{arm.seconds:.0f}")
    Console().print(table)
    print("What mattered, out of fold:")
    for step in result.mattered:
        print(f"  {step.sentence()}")
    if result.importance.features:
        drops = [f"{each.feature} {100 * each.map_drop:.1f}" for each in result.importance.features[:5]]
        print(f"  features, by their drop in mAP if shuffled: {', '.join(drops)}")
    for sentence in [*result.importance.leaks(), *result.skipped]:
        print(f"note: {sentence}")
    print(result.sentence())
    print(f"Report: {result.report}")
    print(f"Next: {result.next_command} --out predictions.csv")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"
