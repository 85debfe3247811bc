"""`tailmask train`: one method on one data set, with its full record in a folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailmask.data import DataOptions, load
from tailmask.errors import UserError, require
from tailmask.files import slug
from tailmask.training.config import Precision, RunConfig, configure
from tailmask.training.placement import Placement
from tailmask.training.run import Run
from tailmask.training.toml import to_toml

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["train"]


def train(
    data: str,
    /,
    *,
    options: DataOptions,
    method: str = "plm",
    seed: int = 0,
    out: Path | None = None,
    epochs: int | None = None,
    budget: float = 1.0,
    recipe: str | None = None,
    model: str | None = None,
    set: Sequence[str] = (),
    print_config: bool = False,
    threads: int | None = None,
    devices: int = 1,
    precision: Precision = "32",
    compile: bool = False,
    tensorboard: bool = False,
) -> None:
    """Train one method on one data set. A run that was interrupted goes on; one that is complete is read.

    Args:
        data: name of a data set, or path of your own file
        method: what to train with: [plm+]LOSS[+cb][+undersample|+classaware][+drw], where LOSS is bce, focal,
            asl, hill, db or ldam; options follow a colon, as in plm:rate=0.05+focal:gamma=2
        seed: seed of weights, order, augmentation and masks
        out: folder of the run; left out, one below runs/
        epochs: number of epochs; the learning rate's course stretches along
        budget: share of the recipe's epochs, as in 0.2; a rate of 0.01 or less grows in proportion
        recipe: name of a recipe, or your own .toml file; left out, the one for the data
        model: network: resnet12, resnet32, resnet50, cnn, mlp, linear, or package.module:factory of your own
        set: fields of the recipe, as in optimizer.lr=0.05 schedule.batch_size=64
        print_config: print the recipe that results, as a .toml file, and stop
        threads: CPU threads of a process; left out, all cores
        devices: processes on this machine that train together
        precision: 32, or bf16 for mixed precision
        compile: compile the network first; worth it for long runs of the residual networks
        tensorboard: log for TensorBoard as well
        options: choices about the data
    """
    for name, value in (("threads", threads), ("devices", devices)):
        if value is not None and value < 1:
            raise UserError(f"--{name} must be 1 or more, got {value}")
    fields = [*([f"model.name={model}"] if model else []), *set]
    config = configure(
        data,
        method,
        recipe=recipe,
        seed=seed,
        budget=budget,
        epochs=epochs,
        fields=fields,
        options=options,
        precision=precision,
        compile=compile,
    )
    if print_config:
        if config.remake is not None:
            config = config.fitted(load(data, options).shape)
        print(to_toml(config))
        return
    folder = out or _default_folder(config)
    run = _train(config, folder, threads=threads, devices=devices, tensorboard=tensorboard)
    if Placement.from_environment().is_first:
        _show(run)


def _train(config: RunConfig, folder: Path, *, threads: int | None, devices: int, tensorboard: bool) -> Run:
    require("rich", extra="cli")
    from tailmask.cli.progress import RunProgress, notes

    progress = RunProgress(f"{config.name} on {Path(config.data).name}")
    if devices == 1:  # other processes would write over it
        progress.wait(f"getting {Path(config.data).name} and the network ready")
    try:
        require("pytorch_lightning", extra="cli")
        from tailmask.training.engine import Execution
        from tailmask.training.engine import train as train_run

        execution = Execution(devices=devices, threads=threads, tensorboard=tensorboard)
        was_complete = Run(folder).is_complete
        with notes(progress):
            run = train_run(config, folder, execution=execution, progress=progress)
        if was_complete and Placement.from_environment().is_first:
            progress.note(f"{folder} holds this run already, complete: nothing was trained")
        return run
    except KeyboardInterrupt:
        progress.end()
        if Run(folder).exists:
            done, total = len(Run(folder).history), config.recipe.schedule.epochs
            command = shlex.join(["tailmask", *sys.argv[1:]])
            progress.note(f"stopped after epoch {done} of {total}, kept in {folder}; to go on: {command}")
        else:
            progress.note("stopped before training began; nothing was written")
        raise
    finally:
        progress.end()


def _default_folder(config: RunConfig) -> Path:
    return Path("runs") / slug(f"{Path(config.data).stem}_{config.name}_seed={config.seed}")


def _show(run: Run) -> None:
    from rich.console import Console

    console = Console()
    console.print(_table(run))
    print(f"run in {run.folder}")


def _table(run: Run) -> Table:
    from rich.table import Table

    summary: dict[str, Any] = run.metrics["test"]["summary"]
    measures = ["precision", "recall", "f1", "ap"] + (["error"] if run.config["single_label"] else [])
    groups = [""] + [name.removeprefix("f1") for name in summary if name.startswith("f1_")]
    table = Table(
        title=f"{run.config['name']} on {Path(run.config['data']).name}, test", title_justify="left"
    )
    table.add_column("classes")
    for name in measures:
        table.add_column(name, justify="right")
    for group in groups:
        label = group.strip("_").replace("_", " ") or "all"
        values = [
            summary.get("error_balanced" if (name, group) == ("error", "") else name + group)
            for name in measures
        ]
        table.add_row(label, *(_percent(value) for value in values))
    overall = ("error",) if run.config["single_label"] else ("exact_match", "micro_f1", "sample_f1")
    caption = [f"{name.replace('_', ' ')} {_percent(summary.get(name))}" for name in overall]
    if "test_tuned" in run.metrics:
        tuned = run.metrics["test_tuned"]["summary"].get("f1")
        caption.append(f"f1 with thresholds tuned on validation {_percent(tuned)}")
    table.caption = "in %: " + ", ".join(caption)
    table.caption_justify = "left"
    return table


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"
