"""`tailmask data`: statistics of a data set."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from tailmask._util.messages import UserError, listing, one_line, printable, require
from tailmask.cli.data_options import DATA_DEFAULTS
from tailmask.data import NAMED, DataOptions, load

if TYPE_CHECKING:
    from tailmask.data import Dataset
    from tailmask.data.class_statistics import Statistics
    from tailmask.data.readers.table.column_summary import ColumnUse

__all__ = ["data"]

LEGEND = (
    "density: positives among the known labels; ρ: the most frequent class over the least frequent; "
    "r_c: positives over negatives of a class"
)

# With more classes, the table shows only the most and the least frequent.
MOST_ROWS = 1000

# The default number of folds of cross-fitting.
FOLDS = 5

# With more columns, the table shows only the number of columns per use.
MOST_COLUMNS = 40


def data(
    name_or_path: str | None = None,
    /,
    *,
    form: Annotated[Literal["table", "json"], Parameter(name="--format")] = "table",
    plot: Path | None = None,
    options: DataOptions = DATA_DEFAULTS,
) -> None:
    """Show how many samples a data set has, how frequent each class is, and how many labels are unknown.

    Args:
        name_or_path: a public data set, or a file of your own; without it, the public data sets are listed
        form: table for people, json for programs
        plot: folder for charts of class frequencies and co-occurrences
    """
    if name_or_path is None:
        width = max(map(len, NAMED))
        print("\n".join(f"{name:<{width}}  {named.help}" for name, named in NAMED.items()))
        return
    from tailmask.data.class_statistics import summaries
    from tailmask.data.notes import data_notes
    from tailmask.data.rare_label_advice import advice

    dataset = load(name_or_path, options)
    statistics = summaries(dataset)
    notes = list(data_notes(dataset, statistics))
    if plot is not None:
        from tailmask.report.charts.data_set import draw_data_set

        notes += [f"drew {path}" for path in draw_data_set(dataset, statistics, plot)]
    advices = list(advice(statistics))
    fewest = _fewest_in_a_fold(dataset)
    if isinstance(fewest, str):
        notes.append(fewest)
    elif fewest is not None:
        rarest = min(range(len(fewest)), key=fewest.__getitem__)
        name = dataset.classes[rarest]
        advices.append(f"with {FOLDS} folds, the smallest number of {name} in a fold is {fewest[rarest]}")
    if form == "json":
        _print_json(dataset, statistics, notes, advices, fewest)
    else:
        _print_tables(dataset, statistics, notes, advices)


def _fewest_in_a_fold(dataset: Dataset) -> list[int] | str | None:
    """The smallest number of positives of each class in a fold of training and validation rows.

    It is a text with the reason if folds are not possible, and None for data without raw rows.
    """
    from tailmask.learners.folds import make_folds

    if dataset.raw is None:
        return None
    try:
        folds = make_folds(dataset.raw.development, FOLDS, seed=0)
    except UserError as error:
        return f"no {FOLDS} folds: {error}"
    fewest: list[int] = folds.fewest_positives(dataset.raw.development.labelled).tolist()
    return fewest


def _print_json(
    dataset: Dataset,
    statistics: Mapping[str, Statistics],
    notes: list[str],
    advices: list[str],
    fewest: list[int] | str | None,
) -> None:
    content = {
        "name": dataset.name,
        "inputs": list(dataset.shape),
        "columns": [dataclasses.asdict(column) for column in dataset.columns],
        "single_label": dataset.single_label,
        "source": dataset.source,
        "splits": {name: split.to_json() for name, split in statistics.items()},
        "folds": {"count": FOLDS, "fewest_positives": fewest} if isinstance(fewest, list) else None,
        "notes": notes,
        "advice": advices,
    }
    json.dump(content, sys.stdout, indent=2, ensure_ascii=False)
    print()


def _print_tables(
    dataset: Dataset, statistics: Mapping[str, Statistics], notes: list[str], advices: list[str]
) -> None:
    from tailmask.report.result_terminal import open_console

    console = open_console()
    kind = "one label per sample" if dataset.single_label else "any number of labels per sample"
    shape = "×".join(map(str, dataset.shape))
    console.print(f"{one_line(dataset.name)}: {len(dataset.classes)} classes, {kind}, inputs of {shape}\n")
    if dataset.columns:
        console.print(_columns(dataset.columns))
        console.print()
    console.print(_summary(statistics))
    console.print()
    console.print(_classes(statistics))
    console.print(LEGEND)
    for note in notes:
        console.print(f"note: {one_line(note)}")
    for sentence in advices:
        console.print(f"advice: {one_line(sentence)}")


def _columns(columns: Sequence[ColumnUse]) -> Any:
    """A table with the use of each column; for a wide table, the number of columns per use."""
    text: Any = require("rich.text", extra="cli")
    if len(columns) <= MOST_COLUMNS:
        table = _table("column", "used as", "", "inputs", "empty cells", left=3)
        for column in columns:
            share = f"{column.empty} ({column.empty / column.rows:.1%})" if column.empty else ""
            inputs = str(column.inputs) if column.inputs else ""
            detail = text.Text(printable(column.detail))
            table.add_row(text.Text(printable(column.name)), column.use, detail, inputs, share)
        return table
    table = _table("used as", "columns", "which", left=3)
    reasons: dict[str, list[str]] = {}
    for column in columns:
        use = f"{column.use}: {column.detail}" if column.use == "left out" else column.use
        reasons.setdefault(use, []).append(printable(column.name))
    for use, names in reasons.items():
        table.add_row(use, str(len(names)), text.Text(listing(names)))
    return table


def _summary(statistics: Mapping[str, Statistics]) -> Any:
    table = _table("split", "samples", "labels", "per sample", "density", "ρ", "unlabelled", "unknown")
    for name, split in statistics.items():
        rho = "–" if split.rho is None else f"{split.rho:.2f}"
        table.add_row(
            name,
            str(split.num_samples),
            str(sum(split.positives)),
            f"{split.cardinality:.3f}",
            f"{split.density:.4f}",
            rho,
            str(split.num_unlabelled),
            str(sum(split.unknown)),
        )
    return table


def _classes(statistics: Mapping[str, Statistics]) -> Any:
    """Classes from the most to the least frequent in training; r_c is positives over negatives."""

    text: Any = require("rich.text", extra="cli")  # a plain string would be read as markup
    train = statistics["train"]
    table = _table("class", *(f"{name}{column}" for name in statistics for column in ("", " r_c")))
    order = train.order
    cut = len(order) > MOST_ROWS
    for position, c in enumerate(order):
        if cut and position == MOST_ROWS // 2:
            table.add_row(f"… {len(order) - MOST_ROWS} more classes; see --format json")
        if cut and MOST_ROWS // 2 <= position < len(order) - MOST_ROWS // 2:
            continue
        cells = []
        for split in statistics.values():
            ratio = split.ratios[c]
            cells += [str(split.positives[c]), "–" if ratio is None else f"{ratio:.4g}"]
        table.add_row(text.Text(printable(train.classes[c])), *cells)
    totals = [cell for split in statistics.values() for cell in (str(sum(split.positives)), "")]
    table.add_section()
    table.add_row("total", *totals)
    return table


def _table(first: str, *others: str, left: int = 1) -> Any:
    """A table with `left` columns of words, then right-aligned numbers."""
    table = require("rich.table", extra="cli").Table(box=require("rich.box", extra="cli").SIMPLE_HEAD)
    table.add_column(first, overflow="fold")
    for position, name in enumerate(others, start=1):
        table.add_column(name, justify="left" if position < left else "right", no_wrap=position >= left)
    return table
