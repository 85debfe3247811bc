"""Results of studies in the terminal: tables that fit it, and whole lines where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tailmask.errors import UserError, listing, require
from tailmask.study.markdown import rows_of

if TYPE_CHECKING:
    from tailmask.analysis import Comparison
    from tailmask.analysis.outputs import Decision
    from tailmask.study.pool import Failure

__all__ = ["raise_failures", "show_comparison", "show_result"]

# A cell such as "+12.3 (−10.2 to +14.1)" with its margins, and the measures' names.
_CELL_WIDTH, _NAME_WIDTH = 26, 28


def show_result(result: dict[str, Any]) -> None:
    """Print what `reproduce` made."""
    console = _console()
    console.print(f"\n{result['title']}", style="bold")
    for table in result["tables"]:
        header, *rows = rows_of(table)
        _print_table(console, header, rows, title=table["caption"], left=2 if header[1] == "" else 1)
    for note in result["notes"]:
        console.print(note, soft_wrap=not console.is_terminal)


def show_comparison(comparison: Comparison, *, decisions: Sequence[Decision]) -> None:
    """Print what `compare` found: the measures of each method, differences, classes, and the verdict."""
    from tailmask.analysis.comparison import row_name
    from tailmask.analysis.measures import describe, headline
    from tailmask.analysis.render import footnote

    console = _console()
    metrics = headline(comparison.metrics, single_label=comparison.single_label)
    labels = [describe(metric).label for metric in metrics]
    rows = [key for key in comparison.row_keys if key[1] in decisions]
    columns = [[row_name(*key), *_means(comparison, metrics, *key)] for key in rows]
    _print_columns(console, labels, columns, title="On the test set, in %, mean ± deviation over the seeds")
    columns = [
        [row_name(*key), *_differences(comparison, metrics, *key)]
        for key in rows
        if key != (comparison.baseline, "default")
    ]
    title = f"Difference to {comparison.baseline}, in points, with a 95 % interval"
    _print_columns(console, labels, columns, title=title)
    console.print(footnote(comparison), soft_wrap=not console.is_terminal)
    for method in comparison.methods[1:]:
        _print_gains(console, comparison, method.name)
    _print_verdict(console, comparison.verdict)


def raise_failures(failures: Sequence[Failure]) -> None:
    """Say which runs have failed, as an error, where any has."""
    if failures:
        reasons = listing((f"{failure.run.label}: {failure.sentence}" for failure in failures), limit=3)
        number = f"{len(failures)} run{'s' if len(failures) > 1 else ''}"
        raise UserError(f"{number} failed and the result is without them: {reasons}")


def _means(comparison: Comparison, metrics: Sequence[str], method: str, decision: Decision) -> list[str]:
    from tailmask.analysis.render import mean_text

    return [mean_text(comparison.row(method, metric, decision)) for metric in metrics]


def _differences(
    comparison: Comparison, metrics: Sequence[str], method: str, decision: Decision
) -> list[str]:
    from tailmask.analysis.verdict import interval_text, points

    cells = []
    for metric in metrics:
        found = comparison.difference(method, metric, decision=decision)
        cells.append("" if found is None else f"{points(found.mean)} ({interval_text(found)})")
    return cells


def _print_gains(console: Any, comparison: Comparison, method: str) -> None:
    from tailmask.analysis.verdict import points

    measure = "recall" if comparison.single_label else "F1"
    for what, gains in zip(("gained", "lost"), comparison.gains(method), strict=True):
        shown = [f"{_printable(gain.name)} {points(gain.difference)}" for gain in gains]
        if shown:
            console.print(f"{method}: classes that {what} most {measure}: {', '.join(shown)}", soft_wrap=True)


def _print_verdict(console: Any, text: str) -> None:
    if console.is_terminal:
        panel = require("rich.panel", extra="cli").Panel(text, title="Verdict", border_style="bold")
        console.print(panel)
    else:
        console.print(f"\nVerdict: {text}\n", soft_wrap=True)


def _print_columns(
    console: Any, labels: Sequence[str], columns: Sequence[Sequence[str]], *, title: str
) -> None:
    """Measures down, methods across; several tables where one would not fit."""
    fitting = max(1, (console.width - _NAME_WIDTH) // _CELL_WIDTH)
    for start in range(0, len(columns), fitting):
        header, *rows = zip(["", *labels], *columns[start : start + fitting], strict=True)
        _print_table(console, header, rows, title=title)


def _print_table(
    console: Any, header: Sequence[str], rows: Sequence[Sequence[str]], *, title: str, left: int = 1
) -> None:
    box, kind = require("rich.box", extra="cli"), require("rich.table", extra="cli")
    table = kind.Table(box=box.SIMPLE_HEAD)
    for number, name in enumerate(header):
        table.add_column(_printable(name), justify="left" if number < left else "right")
    for row in rows:
        table.add_row(*map(_printable, row))
    console.print(f"\n{title}")
    console.print(table)


def _console() -> Any:
    """The standard output; where it is no terminal, no line is broken."""
    console = require("rich.console", extra="cli").Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000
    return console


def _printable(text: str) -> str:
    """Text without what would move the cursor."""
    return "".join(char if char.isprintable() else "�" for char in text)
