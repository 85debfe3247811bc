"""CSV and TSV files as text: their separators and column names, and faults in their lines."""

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

__all__ = [
    "NOT_UTF8",
    "QUOTED",
    "SEPARATORS",
    "TextTable",
    "is_packed",
    "open_bytes",
    "open_text_table",
    "table_suffix",
]

SEPARATORS = {".csv": ",", ".tsv": "\t"}

# A whole cell in quotes; every quote inside is doubled.
QUOTED = r'"(?:[^"]|"")*"'

NOT_UTF8 = "is not written in UTF-8: save it again as UTF-8"

_WORDS = {",": "comma", "\t": "tab", ";": "semicolon"}
_QUOTED_CELLS = re.compile(rf"{QUOTED}(?:\t{QUOTED})*")


def table_suffix(path: Path) -> str:
    """The suffix of a table's name in lower case, without .gz.

    >>> table_suffix(Path("a.CSV")), table_suffix(Path("a.csv.gz"))
    ('.csv', '.csv')
    """
    return (path.with_suffix("") if is_packed(path) else path).suffix.lower()


def is_packed(path: Path) -> bool:
    """True if a file is packed with gzip, by its name.

    >>> is_packed(Path("a.csv.GZ"))
    True
    """
    return path.suffix.lower() == ".gz"


def open_bytes(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked."""
    return io.BufferedReader(gzip.GzipFile(path)) if is_packed(path) else path.open("rb")


def _open_text(path: Path) -> TextIO:
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="")


@dataclass(frozen=True)
class TextTable:
    """The separator, the quotes and the column names of a CSV or TSV file."""

    path: Path
    separator: str
    quote: str | None
    header: bool
    names: tuple[str, ...]

    def blank_rows(self) -> NDArray[np.int64]:
        """The rows that are blank lines, counted from 0; blank lines in quotes are part of a cell."""
        row, inside, blank = -int(self.header), False, array("q")
        with open_bytes(self.path) as file:
            for line in file:
                if not inside:
                    if not line.strip(b"\r\n"):
                        blank.append(row)
                    row += 1
                inside ^= self.quote is not None and line.count(b'"') % 2 == 1
        return np.array(blank, dtype=np.int64)

    def longer_row(self) -> str | None:
        """The fault of the first row with more cells than the first line; None if there is none."""
        with _open_text(self.path) as file:
            first = file.readline().rstrip("\r\n")
            file.seek(0)
            reader = csv.reader(file, delimiter=self.separator, quotechar=self.quote)
            try:
                row = next((row for row in reader if len(row) > len(self.names)), None)
            except (csv.Error, UnicodeError):  # a cell is too long, or is not text
                return None
        if row is None:
            return None
        word = _WORDS[self.separator]
        if any(row[len(self.names) :]):
            hint = (
                "the first line must name every column"
                if self.header
                else "all lines must have the same number of cells"
            )
            hint += "" if self.quote is None else f", and a cell with a {word} must be in quotes"
        else:
            hint = f"remove the {word}s at the ends of lines"
        cells = f"{len(row)} cells in line {reader.line_num}, but {len(self.names)} in its first line"
        return f"has {cells}, {first[:40]!r}: {hint}"


def open_text_table(path: Path, *, header: bool) -> TextTable:
    """The layout of a file, from its first line; without a header, the columns are called 0, 1, 2 …"""
    try:
        with _open_text(path) as file:
            line = _first_line(file, path)
            separator = _separator(line, SEPARATORS[table_suffix(path)], header=header)
            # Texts have few tabs and many quotes: TSV cells keep their quotes, unless all names are quoted.
            in_tsv = separator == "\t" and table_suffix(path) == ".tsv"
            quoted = not in_tsv or (header and _QUOTED_CELLS.fullmatch(line) is not None)
            file.seek(0)
            first = next(csv.reader(file, delimiter=separator), []) if quoted else line.split(separator)
    except (csv.Error, gzip.BadGzipFile, EOFError) as error:
        raise UserError(f"{path} cannot be read as a table ({error}): save it again") from error
    names = _checked(path, first) if header else [str(number) for number in range(len(first))]
    return TextTable(path, separator, '"' if quoted else None, header, tuple(names))


def _separator(line: str, usual: str, *, header: bool) -> str:
    """The separator of the first line: that of the file's suffix, unless another one makes more cells.

    Without a header, the cells of that line may contain commas and semicolons. Then another separator counts
    only for .csv files, and only if the usual one is not in the line.
    """
    if not header and (usual in line or usual == "\t"):
        return usual
    number = {mark: len(next(csv.reader([line], delimiter=mark), [])) for mark in (usual, *_WORDS)}
    return max(number, key=lambda mark: number[mark])  # if equal, the first one: the usual separator


def _first_line(file: TextIO, path: Path) -> str:
    line = file.readline()
    if not line:
        raise UserError(f"{path} is empty: write a line of names, then one line for each row")
    if "\0" in line:  # UTF-16 without a byte order mark
        raise UserError(f"{path} {NOT_UTF8}")
    if line and not line.strip(" \r\n"):
        raise UserError(f"{path} begins with a blank line: remove it")
    return line.rstrip("\r\n")


def _checked(path: Path, first: list[str]) -> list[str]:
    """The names in the first line; an error if two are the same."""
    names = [name.strip() for name in first]
    double = [name for name, number in Counter(names).items() if number > 1]
    if double:
        hint = "give each column of the first line its own name"
        if all(name.replace(".", "").isdecimal() for name in double):
            hint += ", or, if that line holds no names, add --no-header"
        raise UserError(f"{path} names a column twice: {listing(double)}; {hint}")
    return names
