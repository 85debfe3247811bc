"""A comparison in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailmask._util.messages import printable
from tailmask.comparison.comparison_result import ClassGain, Comparison, Difference, row_name
from tailmask.comparison.measures import describe, primary
from tailmask.comparison.run_outputs import Decision
from tailmask.comparison.verdict_sentences import (
    decision_words,
    lead_method,
    points,
    shown_decision,
    verdict,
)
from tailmask.report.comparison_text import footnote, mean_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

__all__ = ["print_comparison"]

# The largest number of methods that fit side by side with their intervals.
MOST_COLUMNS = 3


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the table, the classes that changed most, and the verdict last: users read the end first."""

    keys, shown = comparison.row_keys, shown_decision(comparison)
    if len(comparison.methods) - 1 <= MOST_COLUMNS:
        console.print(_measures_down(comparison, shown))
        extra = [key for key in keys if key[1] != shown]
        if extra:
            console.print(_methods_down(comparison, extra, title="The same outputs with other decisions"))
    else:
        console.print(_methods_down(comparison, keys, title=f"{comparison.data}, test, in %"))
    lead = lead_method(comparison)
    if lead is not None:
        for line in _class_lines(comparison, lead):
            console.print(line, soft_wrap=True)
    found = verdict(comparison)
    for note in (footnote(comparison), *found.details):
        console.print(_text(note, style="dim"))
    console.print()
    first, *rest = found.sentences
    console.print(_text(first, style="bold"))
    console.print(_text(" ".join(rest)))


def _measures_down(comparison: Comparison, decision: Decision) -> Table:
    """A table with one line per measure: each method's mean and its difference to the baseline."""
    how = "" if comparison.single_label else f", {decision_words(decision)}"
    table = _table(f"{comparison.data}, test, in %{how}", "measure", comparison.baseline)
    others = [method.name for method in comparison.methods[1:]]
    for name in others:
        table.add_column(_text(name), justify="right", no_wrap=True)
        table.add_column(_text(f"− {comparison.baseline}, 95 %"), justify="right", no_wrap=True)
    for metric in comparison.headline:
        cells = [_text(mean_text(comparison.row(comparison.baseline, metric, decision)))]
        for name in others:
            cells.append(_text(mean_text(comparison.row(name, metric, decision))))
            cells.append(_difference(comparison.like_for_like(name, metric, decision)))
        table.add_row(_text(describe(metric).heading), *cells)
    return table


def _methods_down(comparison: Comparison, keys: Sequence[tuple[str, Decision]], *, title: str) -> Table:
    """A table with one line per method and the main measures."""
    whole, tail = primary(single_label=comparison.single_label)
    names = [whole, tail, "ap", "error" if comparison.single_label else "exact_match"]
    names = [name for name in names if name in comparison.metrics]
    table = _table(title, "method", *(describe(name).heading for name in names))
    difference_name = f"{describe(whole).label} − {comparison.baseline}, 95 %"
    table.add_column(_text(difference_name), justify="right", no_wrap=True)
    for method, decision in keys:
        means = [_text(mean_text(comparison.row(method, name, decision))) for name in names]
        difference = _difference(comparison.like_for_like(method, whole, decision))
        table.add_row(_text(row_name(method, decision)), *means, difference)
    return table


def _class_lines(comparison: Comparison, method: str) -> list[Text]:
    gained, lost = comparison.gains(method, number=3)
    how = "" if comparison.single_label else f" {decision_words(comparison.class_decision)}"
    lines = []
    for title, gains in (("gained", gained), ("lost", lost)):
        if gains:
            lines.append(_text(f"{title} most with {method}{how}: {'; '.join(map(_gain, gains))}"))
    return lines


def _gain(gain: ClassGain) -> str:
    change = f"{points(gain.difference)} [{points(gain.low)}, {points(gain.high)}]"
    return f"{gain.name} ({gain.train_positives} training samples) {change}"


def _difference(difference: Difference | None) -> Text:
    if difference is None:
        return _text("")
    text = f"{points(difference.mean)} [{points(difference.low)}, {points(difference.high)}]"
    return _text(text, style={1: "green", -1: "red", 0: "dim"}[difference.effect])


def _table(title: str, first: str, *others: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=_text(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(_text(name), justify="right", no_wrap=True)
    return table


def _text(text: str, *, style: str = "") -> Text:
    """Plain text: no markup, and no characters that move the cursor."""
    from rich.text import Text

    return Text(printable(text), style=style)
