"""CSV and TSV files as text: what their columns are called, and whether cells stand in quotes."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tailmask.errors import UserError, listing

__all__ = ["QUOTED", "SEPARATORS", "TextTable", "open_text_table"]

SEPARATORS = {".csv": ",", ".tsv": "\t"}

# A whole cell in quotes, in which every quote stands twice.
QUOTED = r'"(?:[^"]|"")*"'

_QUOTED_CELLS = re.compile(rf"{QUOTED}(?:\t{QUOTED})*")


@dataclass(frozen=True)
class TextTable:
    """A CSV or TSV file: how its cells are told apart, and what its columns are called."""

    path: Path
    separator: str
    quote: str | None
    names: tuple[str, ...]


def open_text_table(path: Path, *, header: bool) -> TextTable:
    """What the first line of a file says; without a header, the columns are called 0, 1, 2 …"""
    separator = SEPARATORS[path.suffix.lower()]
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline().rstrip("\r\n")
            # Texts have few tabs and many quotes: TSV cells keep theirs, unless all names stand in quotes.
            quoted = separator == "," or (header and _QUOTED_CELLS.fullmatch(line) is not None)
            file.seek(0)
            first = next(csv.reader(file, delimiter=separator), []) if quoted else line.split(separator)
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as a table ({error})") from error
    names = _checked(path, first) if header else [str(number) for number in range(len(first))]
    return TextTable(path, separator, '"' if quoted else None, tuple(names))


def _checked(path: Path, first: list[str]) -> list[str]:
    """The names in the first line, if no two are the same and no other separator is in them."""
    names = [name.strip() for name in first]
    double = [name for name, number in Counter(names).items() if number > 1]
    if double:
        hint = "give each column of the first line its own name"
        if all(name.replace(".", "").isdecimal() for name in double):
            hint += ", or, if that line holds no names, add --no-header"
        raise UserError(f"{path} names a column twice: {listing(double)}; {hint}")
    if len(names) == 1 and ";" in names[0]:
        raise UserError(f"{path} has columns separated by semicolons: save it with commas")
    return names
