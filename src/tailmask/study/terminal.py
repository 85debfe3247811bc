"""Results of studies in the terminal: tables that fit it, and whole lines where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tailmask.errors import UserError, listing, one_line, printable, require
from tailmask.study.markdown import rows_of

if TYPE_CHECKING:
    from tailmask.study.pool import Failure

__all__ = ["open_console", "raise_failures", "show_result"]


def show_result(result: dict[str, Any]) -> None:
    """Print what `reproduce` made."""
    console, text = open_console(), require("rich.text", extra="cli").Text
    kind, box = require("rich.table", extra="cli").Table, require("rich.box", extra="cli").SIMPLE_HEAD
    console.print(f"\n{one_line(result['title'])}", style="bold")
    for content in result["tables"]:
        header, *rows = rows_of(content)
        left = 2 if header[1] == "" else 1
        table = kind(box=box)
        for number, name in enumerate(header):
            table.add_column(text(printable(name)), justify="left" if number < left else "right")
        for row in rows:
            table.add_row(*(text(printable(cell)) for cell in row))
        console.print(f"\n{one_line(content['caption'])}")
        console.print(table)
    for note in result["notes"]:
        console.print(one_line(note))


def raise_failures(failures: Sequence[Failure]) -> None:
    """Say which runs have failed, as an error, where any has."""
    if failures:
        reasons = listing((f"{failure.run.label}: {failure.sentence}" for failure in failures), limit=3)
        number = f"{len(failures)} run{'s' if len(failures) > 1 else ''}"
        raise UserError(f"{number} failed, and the result is without: {reasons}")


def open_console() -> Any:
    """The standard output; where it is no terminal, no line is broken."""
    console = require("rich.console", extra="cli").Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000
    return console
