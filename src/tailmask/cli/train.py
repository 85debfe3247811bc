"""`tailmask train`: one method on one data set, with its full record in a folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tailmask._util.files import slug
from tailmask._util.logger_name import LoggerName
from tailmask._util.messages import check_count, require
from tailmask._util.precision import AskedPrecision
from tailmask.cli.data_options import DATA_DEFAULTS
from tailmask.cli.method_help import with_method_help
from tailmask.cli.model_option import apply_model
from tailmask.data import DataOptions, load
from tailmask.methods import parse
from tailmask.training.with_lightning.devices import Placement

if TYPE_CHECKING:
    from tailmask.runs import Run, RunConfig, Setting
    from tailmask.training.engine import Execution

__all__ = ["train"]


@with_method_help
def train(
    data: str,
    /,
    *,
    method: str = "plm",
    seed: int = 0,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    epochs: int | None = None,
    budget: float = 1.0,
    recipe: str | None = None,
    model: str | None = None,
    fields: Annotated[Sequence[str], Parameter(name="--set")] = (),
    print_config: bool = False,
    threads: int | None = None,
    devices: int = 1,
    precision: AskedPrecision = "32",
    compiled: Annotated[bool, Parameter(name="--compile")] = False,
    logger: LoggerName | None = None,
    folds: int | None = None,
    options: DataOptions = DATA_DEFAULTS,
) -> None:
    """Train one method on one data set.

    Args:
        data: name of a data set, or path of your own file
        method: method to train with, METHOD_HELP
        seed: seed of weights, order, augmentation and masks
        out: folder of the run [default: a folder in runs]
        epochs: number of epochs; the learning rate schedule is stretched to it
        budget: share of the recipe's epochs, as in 0.2; plm's rate grows in proportion if it is 0.01 or less
        recipe: name of a recipe, or your own .toml file [default: the recipe for the data]
        model: network: resnet12, resnet12-wide2, resnet12-wide4, resnet12-fewshot, resnet12-fewshot-wide,
            resnet32, resnet50, cnn, mlp, linear, or package.module:factory of your own; or a
            pretrained model whose features become the inputs: hf:NAME_OR_FOLDER, timm:NAME
        fields: fields of the recipe, as in optimizer.lr=0.05 schedule.batch_size=64
        print_config: print the complete recipe as a .toml file, and stop
        threads: CPU threads per process [default: all cores]
        devices: number of processes on this machine that train together
        precision: floating-point precision of training; bf16 is mixed precision, auto is bf16 if the
            processor or the GPU has instructions for it, else 32
        compiled: compile the network first; this makes long runs of residual networks faster
        logger: tool that also gets the settings, epochs and results; with folds, only settings and results
        folds: number of folds to cross-fit, 1 for one validation split [default: 5 for tables with fewer than
            20,000 rows, else 1]
    """
    from tailmask.runs import Run, Setting
    from tailmask.runs.recipe_text import to_toml
    from tailmask.training.engine import Execution

    check_count("threads", threads)
    check_count("devices", devices)
    options, fields = apply_model(model, options, fields)
    setting = Setting(data, options, recipe, budget, epochs, fields, precision, compiled, folds)
    setting.check([method])
    if print_config:
        print(to_toml(setting.resolve().config(method, seed)))
        return
    folder = out or Path("runs") / slug(f"{Path(data).stem}_{parse(method)}_seed={seed}")
    if Run(folder).exists:
        setting = setting.keep_precision(Run(folder).config.get("precision"))
    execution = Execution(devices=devices, threads=threads, logger=logger)
    run = _train(setting, method, seed, folder=folder, execution=execution)
    if Placement.from_environment().is_first:
        from rich.console import Console

        from tailmask.report.run_terminal import print_run
        from tailmask.runs.next_command import predict_command

        print_run(run, Console())
        print(f"run in {folder}")
        print(f"next: {predict_command(str(folder), run.config)}")


def _train(
    setting: Setting,
    method: str,
    seed: int,
    *,
    folder: Path,
    execution: Execution,
) -> Run:
    require("rich", extra="cli")
    from tailmask.cli.progress_bar import RunProgress, notes
    from tailmask.data.facts import DataFacts
    from tailmask.runs import Run

    name = Path(setting.data).name
    progress = RunProgress(f"{parse(method)} on {name}")
    # Other processes would overwrite this status, and so would the progress bar of a pretrained model.
    if execution.devices == 1 and setting.options.features_of is None:
        progress.wait(f"preparing {name} and the network")
    config: RunConfig | None = None
    try:
        from tailmask.learners.cross_fitted_run import make_run

        was_complete = Run(folder).is_complete
        with notes(progress):
            dataset = load(setting.data, setting.options)
            config = setting.resolve(DataFacts.of(dataset)).config(method, seed)
            run = make_run(config, folder, dataset=dataset, execution=execution, progress=progress)
        if was_complete and Placement.from_environment().is_first:
            progress.note(f"{folder} already has this run, complete: nothing was trained")
        return run
    except KeyboardInterrupt:
        progress.end()
        if config is not None and Run(folder).exists:
            done, total = len(Run(folder).history), config.recipe.schedule.epochs
            command = shlex.join(["tailmask", *sys.argv[1:]])
            progress.note(f"stopped after epoch {done} of {total}, kept in {folder}; to resume: {command}")
        else:
            progress.note("stopped before training began; nothing was written")
        raise
    finally:
        progress.end()
