"""CSV and TSV files as text: what their columns are called, and what keeps them from being tables."""

from __future__ import annotations

import csv
import gzip
import io
import re
from array import array
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import UserError, listing

__all__ = ["NOT_UTF8", "QUOTED", "SEPARATORS", "TextTable", "open_text_table", "table_suffix"]

SEPARATORS = {".csv": ",", ".tsv": "\t"}

# A whole cell in quotes, in which every quote stands twice.
QUOTED = r'"(?:[^"]|"")*"'

NOT_UTF8 = "is not written in UTF-8: save it again as UTF-8"

_WORDS = {",": "comma", "\t": "tab", ";": "semicolon"}
_QUOTED_CELLS = re.compile(rf"{QUOTED}(?:\t{QUOTED})*")


def table_suffix(path: Path) -> str:
    """What a table's name ends with, in lower case, whether it is packed with gzip or not.

    >>> table_suffix(Path("a.CSV")), table_suffix(Path("a.csv.gz"))
    ('.csv', '.csv')
    """
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def _open_bytes(path: Path) -> BinaryIO:
    packed = path.suffix.lower() == ".gz"
    return io.BufferedReader(gzip.GzipFile(path)) if packed else path.open("rb")


def _open_text(path: Path) -> TextIO:
    return io.TextIOWrapper(_open_bytes(path), encoding="utf-8-sig", newline="")


@dataclass(frozen=True)
class TextTable:
    """A CSV or TSV file: how its cells are told apart, and what its columns are called."""

    path: Path
    separator: str
    quote: str | None
    header: bool
    names: tuple[str, ...]

    def blank_rows(self) -> NDArray[np.int64]:
        """The rows that are blank lines, counted from 0; blank lines in quotes are part of a cell."""
        row, inside, blank = -int(self.header), False, array("q")
        with _open_bytes(self.path) as file:
            for line in file:
                if not inside:
                    if not line.strip(b"\r\n"):
                        blank.append(row)
                    row += 1
                inside ^= self.quote is not None and line.count(b'"') % 2 == 1
        return np.array(blank, dtype=np.int64)

    def longer_row(self) -> str | None:
        """What is wrong with the first row that has more cells than the first line; None where none has."""
        with _open_text(self.path) as file:
            first = file.readline().rstrip("\r\n")
            file.seek(0)
            reader = csv.reader(file, delimiter=self.separator, quotechar=self.quote)
            try:
                row = next((row for row in reader if len(row) > len(self.names)), None)
            except (csv.Error, UnicodeError):  # a cell that is too long, or no text
                return None
        if row is None:
            return None
        word = _WORDS[self.separator]
        if any(row[len(self.names) :]):
            hint = "the first line must name every column" if self.header else "all lines must have as many"
            hint += "" if self.quote is None else f", and a cell with a {word} must stand in quotes"
        else:
            hint = f"remove the {word}s at the ends of lines"
        cells = f"{len(row)} cells in line {reader.line_num}, but {len(self.names)} in its first line"
        return f"has {cells}, {first[:40]!r}: {hint}"


def open_text_table(path: Path, *, header: bool) -> TextTable:
    """What the first line of a file says; without a header, the columns are called 0, 1, 2 …"""
    try:
        with _open_text(path) as file:
            line = _first_line(file, path)
            separator = _separator(line, SEPARATORS[table_suffix(path)], header=header)
            # Texts have few tabs and many quotes: TSV cells keep theirs, unless all names stand in quotes.
            in_tsv = separator == "\t" and table_suffix(path) == ".tsv"
            quoted = not in_tsv or (header and _QUOTED_CELLS.fullmatch(line) is not None)
            file.seek(0)
            first = next(csv.reader(file, delimiter=separator), []) if quoted else line.split(separator)
    except (csv.Error, gzip.BadGzipFile, EOFError) as error:
        raise UserError(f"{path} cannot be read as a table ({error})") from error
    names = _checked(path, first) if header else [str(number) for number in range(len(first))]
    return TextTable(path, separator, '"' if quoted else None, header, tuple(names))


def _separator(line: str, usual: str, *, header: bool) -> str:
    """What separates the cells of the first line: what its name says, unless another makes more cells.

    Without a header, the line holds cells with commas and semicolons of their own: then the usual separator
    must not be in it at all, and only .csv files are separated otherwise.
    """
    if not header and (usual in line or usual == "\t"):
        return usual
    number = {mark: len(next(csv.reader([line], delimiter=mark), [])) for mark in (usual, *_WORDS)}
    return max(number, key=lambda mark: number[mark])  # the first of them, which is the usual one, if equal


def _first_line(file: TextIO, path: Path) -> str:
    line = file.readline()
    if "\0" in line:  # UTF-16 without its mark
        raise UserError(f"{path} {NOT_UTF8}")
    if line and not line.strip(" \r\n"):
        raise UserError(f"{path} begins with a blank line: remove it")
    return line.rstrip("\r\n")


def _checked(path: Path, first: list[str]) -> list[str]:
    """The names in the first line, if no two are the same."""
    names = [name.strip() for name in first]
    double = [name for name, number in Counter(names).items() if number > 1]
    if double:
        hint = "give each column of the first line its own name"
        if all(name.replace(".", "").isdecimal() for name in double):
            hint += ", or, if that line holds no names, add --no-header"
        raise UserError(f"{path} names a column twice: {listing(double)}; {hint}")
    return names
