"""ARFF files, dense and sparse, read line by line and in linear time.

The tests compare it with liac-arff, the usual reader, on well-formed files. On malformed files, liac-arff
needs exponential time: a quarter of an hour for a list of 30 values, if one has a space and no quotes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tailmask._util.messages import UserError, listing

__all__ = ["Arff", "ArffRow", "Attribute"]

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_KEYWORD = re.compile(r"@(\w+)\s*(.*)")
_NAME_AND_TYPE = re.compile(rf"({_QUOTED}|\S+)\s+(.*)")
_PIECES = re.compile(rf"""{_QUOTED}|[^,'"]+|.""")  # a quoted text, a plain one, a comma or a lone quote

# A row: its line number, and the cells in the file with their attributes' positions. None is a missing value.
ArffRow: TypeAlias = tuple[int, list[tuple[int, str | None]]]


@dataclass(frozen=True)
class Attribute:
    """A column; `values` are the values of a nominal attribute, and None for numbers."""

    name: str
    values: tuple[str, ...] | None

    @property
    def is_number(self) -> bool:
        """True if it holds numbers; a nominal attribute with the values 0 and 1 counts as numbers."""
        return self.values is None or set(self.values) <= {"0", "1"}

    @property
    def omitted(self) -> str:
        """The value that a sparse row may omit: zero, or the first value of a nominal attribute."""
        return self.values[0] if self.values else "0"


class Arff:
    """The header of an ARFF file, and its rows one by one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.relation = ""
        self.attributes: list[Attribute] = []
        self._header_lines = self._read_header()
        names = Counter(attribute.name for attribute in self.attributes)
        double = [name for name, number in names.items() if number > 1]
        if double:
            raise UserError(f"{path} names an attribute twice: {listing(double)}; rename one of the two")
        self._positions = {str(number): number for number in range(len(self.attributes))}
        self.is_sparse = next((line.startswith("{") for _, line in self._data_lines()), False)

    def rows(self) -> Iterator[ArffRow]:
        """The rows; a sparse row has only the cells that are in the file."""
        for number, line in self._data_lines():
            if line.startswith("{"):
                yield number, self._sparse_row(line, number)
                continue
            cells = [_value(text) for text in _split(line)]
            if len(cells) != len(self.attributes):
                raise self.error(number, f"expected {len(self.attributes)} values, got {len(cells)}")
            yield number, list(enumerate(cells))

    def number(self, text: str | None, position: int, line: int) -> float:
        """A cell as a number, NaN if it is missing."""
        if text is None:
            return math.nan
        try:
            value = float(text)
        except ValueError:
            value = math.inf
        if not math.isfinite(value):
            name = self.attributes[position].name
            raise self.error(line, f"{name[:40]!r} must be a number, got {text[:40]!r}")
        return value

    def error(self, line: int, problem: str) -> UserError:
        """An error that names the file and the line."""
        return UserError(f"{self.path}, line {line}: {problem}")

    def _lines(self) -> Iterator[tuple[int, str]]:
        with self.path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                text = line.strip()
                if text and not text.startswith("%"):
                    yield number, text

    def _data_lines(self) -> Iterator[tuple[int, str]]:
        return ((number, line) for number, line in self._lines() if number > self._header_lines)

    def _read_header(self) -> int:
        for number, line in self._lines():
            match = _KEYWORD.match(line)
            keyword, text = (match[1].lower(), match[2]) if match else ("", "")
            if keyword == "relation":
                self.relation = _value(text) or ""
            elif keyword == "attribute":
                self.attributes.append(self._attribute(text, number))
            elif keyword == "data" and self.attributes:
                return number
            else:
                raise self.error(number, f"expected @attribute or @data, got {line[:40]!r}")
        raise UserError(f"{self.path} is not a complete ARFF file: it has no @data")

    def _attribute(self, text: str, line: int) -> Attribute:
        match = _NAME_AND_TYPE.match(text)
        name, kind = (_value(match[1]) or "", match[2].strip()) if match else (text, "")
        if kind.startswith("{") and kind.endswith("}"):
            return Attribute(name, tuple(_value(value) or "?" for value in _split(kind[1:-1])))
        if kind.lower().startswith(("numeric", "real", "integer")):
            return Attribute(name, None)
        raise self.error(
            line, f"attribute {name[:40]!r} must be numeric or a list of values, got {kind[:40]!r}"
        )

    def _sparse_row(self, line: str, number: int) -> list[tuple[int, str | None]]:
        if not line.endswith("}"):
            raise self.error(number, "a sparse row must end with '}'")
        cells = []
        for pair in _split(line[1:-1]):
            words = pair.split(None, 1)
            place, text = words if len(words) == 2 else (pair.strip(), "")
            position = self._positions.get(place)
            if position is None:
                raise self.error(number, f"{place[:40]!r} is not the number of an attribute")
            cells.append((position, _value(text)))
        return cells


def _split(text: str) -> list[str]:
    """The fields of a line, split at commas outside of quotes."""
    if "'" not in text and '"' not in text:
        return text.split(",") if text.strip() else []
    fields = [""]
    for piece in _PIECES.findall(text):
        if piece == ",":
            fields.append("")
        else:
            fields[-1] += piece
    return fields


def _value(text: str) -> str | None:
    """A value without its quotes; None if it is missing."""
    text = text.strip()
    if text in ("?", ""):
        return None
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text
