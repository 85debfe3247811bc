"""Results of studies on standard output: tables that fit a terminal, unbroken lines elsewhere."""

from __future__ import annotations

from typing import Any

from tailmask._util.messages import one_line, printable, require
from tailmask.report.result_markdown import rows_of

__all__ = ["open_console", "show_result"]


def show_result(result: dict[str, Any]) -> None:
    """Print the result of `reproduce`."""
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


def open_console() -> Any:
    """A console on standard output; if it is no terminal, lines are not broken."""
    console = require("rich.console", extra="cli").Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000
    return console
