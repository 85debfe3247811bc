"""`tailmask train`: one method on one data set, with its full record in a folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tailmask._util.files import slug
from tailmask._util.messages import UserError, printable, require
from tailmask.cli.data_options import DATA_DEFAULTS
from tailmask.cli.method_help import with_method_help
from tailmask.cli.model_option import apply_model
from tailmask.comparison.chosen_classes import by_frequency
from tailmask.data import DataOptions, load
from tailmask.data.facts import DataFacts
from tailmask.methods import parse
from tailmask.runs import Setting
from tailmask.runs.config import AskedPrecision, RunConfig
from tailmask.runs.decision_file import few_positives, read_decisions
from tailmask.runs.reader import Run
from tailmask.runs.recipe_text import to_toml
from tailmask.training.with_lightning.devices import Placement

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["train"]

# As many classes are printed.
MOST_CLASSES = 30


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
    tensorboard: bool = False,
    folds: int | None = None,
    options: DataOptions = DATA_DEFAULTS,
) -> None:
    """Train one method on one data set.

    Args:
        data: name of a data set, or path of your own file
        method: what to train with: METHOD_HELP
        seed: seed of weights, order, augmentation and masks
        out: folder of the run [default: a folder in runs]
        epochs: number of epochs; the learning rate schedule is stretched to it
        budget: share of the recipe's epochs, as in 0.2; a rate of 0.01 or less grows in proportion
        recipe: name of a recipe, or your own .toml file [default: the recipe for the data]
        model: network: resnet12, resnet12-wide2, resnet12-wide4, resnet12-fewshot, resnet12-fewshot-wide,
            resnet32, resnet50, cnn, mlp, linear, or package.module:factory of your own; or a
            pretrained model whose features are learned from: hf:NAME_OR_FOLDER, timm:NAME
        fields: fields of the recipe, as in optimizer.lr=0.05 schedule.batch_size=64
        print_config: print the complete recipe as a .toml file, and stop
        threads: CPU threads per process [default: all cores]
        devices: number of processes on this machine that train together
        precision: floating-point precision of training; bf16 is mixed precision, auto is bf16 where the
            processor or the GPU has instructions for it, else 32
        compiled: compile the network first; worth it for long runs of the residual networks
        tensorboard: also log for TensorBoard
        folds: number of folds to cross-fit, 1 for one validation split [default: 5 for tables with fewer than
            20,000 rows, else 1]
    """
    for name, value in (("threads", threads), ("devices", devices)):
        if value is not None and value < 1:
            raise UserError(f"--{name} must be 1 or more, got {value}")
    options, fields = apply_model(model, options, fields)
    setting = Setting(data, options, recipe, budget, epochs, fields, precision, compiled, folds)
    setting.check([method])
    if print_config:
        print(to_toml(setting.resolve().config(method, seed)))
        return
    folder = out or _default_folder(data, method, seed)
    if Run(folder).exists:
        setting = setting.keep_precision(Run(folder).config.get("precision"))
    run = _train(
        setting, method, seed, folder=folder, threads=threads, devices=devices, tensorboard=tensorboard
    )
    if Placement.from_environment().is_first:
        _show(run)


def _train(
    setting: Setting,
    method: str,
    seed: int,
    *,
    folder: Path,
    threads: int | None,
    devices: int,
    tensorboard: bool,
) -> Run:
    require("rich", extra="cli")
    from tailmask.cli.progress_bar import RunProgress, notes

    name = Path(setting.data).name
    progress = RunProgress(f"{parse(method)} on {name}")
    # Other processes would write over it, and so would the bar of a pretrained model's features.
    if devices == 1 and setting.options.features_of is None:
        progress.wait(f"preparing {name} and the network")
    config: RunConfig | None = None
    try:
        from tailmask.learners.cross_fitted_run import make_run
        from tailmask.training.engine import Execution

        execution = Execution(devices=devices, threads=threads, tensorboard=tensorboard)
        was_complete = Run(folder).is_complete
        with notes(progress):
            dataset = load(setting.data, setting.options)
            config = setting.resolve(DataFacts.of(dataset)).config(method, seed)
            run = make_run(config, folder, dataset=dataset, execution=execution, progress=progress)
        if was_complete and Placement.from_environment().is_first:
            progress.note(f"{folder} holds this run already, complete: nothing was trained")
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


def _default_folder(data: str, method: str, seed: int) -> Path:
    return Path("runs") / slug(f"{Path(data).stem}_{parse(method)}_seed={seed}")


def _show(run: Run) -> None:
    from rich.console import Console

    console = Console()
    console.print(_table(run))
    console.print(_class_table(run))
    decisions = read_decisions(run.folder)
    sentence = None if decisions is None else few_positives([each.positives for each in decisions.classes])
    if sentence is not None:
        print(sentence)
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


def _class_table(run: Run) -> Table:
    """The classes from the most frequent to the rarest, with tuned thresholds where the run has them.

    Of many classes, the rarest ones: those are what the method is for.
    """
    from rich.table import Table
    from rich.text import Text

    tuned = "test_tuned" in run.metrics
    values = _class_values(run, "test_tuned" if tuned else "test")
    train_positives = [int(number) for number in run.config["train_counts"][1]]
    order = by_frequency(train_positives)[-MOST_CLASSES:]
    how = (
        "with tuned thresholds"
        if tuned
        else "most probable class"
        if run.config["single_label"]
        else "at 0.5"
    )
    which = f", {MOST_CLASSES} rarest of {len(train_positives)}" if len(order) < len(train_positives) else ""
    table = Table(title=f"classes, test, {how}{which}", title_justify="left")
    table.add_column("class", overflow="fold")
    for name in ("training samples", "test samples", "precision", "recall", "f1"):
        table.add_column(name, justify="right")
    for index in order:
        name, number = printable(str(run.config["classes"][index])), values["positives"][index]
        shares = (_percent(values[measure][index]) for measure in ("precision", "recall", "f1"))
        table.add_row(Text(name), f"{train_positives[index]:,}", f"{number:,.0f}", *shares)
    table.caption, table.caption_justify = "in %; metrics.json and decisions.json have all classes", "left"
    return table


def _class_values(run: Run, split: str) -> dict[str, list[float]]:
    """Precision, recall, F1 and positives of each class."""
    found = run.metrics[split].get("per_class")
    number = len(run.config["classes"])
    for name in ("precision", "recall", "f1", "positives"):
        values = found.get(name) if isinstance(found, dict) else None
        if not isinstance(values, list) or len(values) != number or not all(map(_is_number, values)):
            raise UserError(f"{run.folder}/metrics.json has no valid {name!r} of each class")
    return dict(found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"
