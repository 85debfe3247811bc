"""A finished run in the terminal: its measures, and those of its classes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailmask._util.messages import UserError, printable
from tailmask.comparison.chosen_classes import by_frequency
from tailmask.runs import Run
from tailmask.runs.decision_file import few_positives, read_decisions

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["print_run"]

# The largest number of classes that are printed.
MOST_CLASSES = 30


def print_run(run: Run, console: Console) -> None:
    """Print the measures of a run and of its classes, and a sentence if few positives chose a threshold."""
    console.print(_table(run))
    console.print(_class_table(run))
    decisions = read_decisions(run.folder)
    sentence = None if decisions is None else few_positives([each.positives for each in decisions.classes])
    if sentence is not None:
        print(sentence)


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
    """The classes from the most frequent to the rarest, with tuned thresholds if the run has them.

    If there are many classes, only the rarest are shown, because the methods are for them.
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
        else f"at {run.config['recipe']['evaluation']['threshold']:g}"
    )
    which = f", {MOST_CLASSES} rarest of {len(train_positives)}" if len(order) < len(train_positives) else ""
    table = Table(title=f"classes, test, {how}{which}", title_justify="left", padding=(0, 0))
    table.add_column("class", overflow="ellipsis")
    columns = ["training", "test", "precision", "recall", "f1"]
    found = run.metrics["test_tuned"].get("predicted_share") if tuned else None
    if found is not None:  # only in a run with folds
        columns += ["predicted", "out of fold"]
    for name in columns:
        table.add_column(name, justify="right")
    for index in order:
        name, number = printable(str(run.config["classes"][index])), values["positives"][index]
        cells = [_percent(values[measure][index]) for measure in ("precision", "recall", "f1")]
        if found is not None:
            cells += [_percent(found[name][index]) for name in ("test", "out_of_fold")]
        table.add_row(Text(name), f"{train_positives[index]:,}", f"{number:,.0f}", *cells)
    shares = "" if found is None else "; predicted: share of rows that get the class, in test and out of fold"
    table.caption = f"in %{shares}; metrics.json and decisions.json have all classes"
    table.caption_justify = "left"
    return table


def _class_values(run: Run, split: str) -> dict[str, list[float]]:
    """Precision, recall, F1 and positives of each class."""
    found = run.metrics[split].get("per_class")
    number = len(run.config["classes"])
    for name in ("precision", "recall", "f1", "positives"):
        values = found.get(name) if isinstance(found, dict) else None
        if not isinstance(values, list) or len(values) != number or not all(map(_is_number, values)):
            raise UserError(f"{run.folder}/metrics.json has no valid {name!r} of each class: was it changed?")
    return dict(found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"
