"""Random small tables as users have them, and the numbers in them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tailmask.data import DataOptions

__all__ = ["RandomTable", "random_table"]

MARKS = ("NA", "N/A", "nan", "NaN", "null", "None", "?", "-", " ")
WORDS = ("red", "Blue", "the green one", 'a "b"', "x,y", "two\nlines", "é", "007", "1", "true", "NA", " pad ")


@dataclass(frozen=True)
class RandomTable:
    """A file, how to read it, and the numbers that columns must be read as."""

    path: Path
    options: DataOptions
    numbers: dict[str, list[float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Cells:
    """The cells of a column, and the numbers that they mean, if they are numbers."""

    cells: list[Any]
    numbers: list[float | None] | None = None


Generator = np.random.Generator


def _numbers(rng: Generator, number: int) -> list[float]:
    """Numbers of many sizes; a float32 can hold all of them once they are standardised."""
    size = 10.0 ** rng.integers(-3, 9)
    kind = rng.integers(4)
    if kind == 0:
        return [float(value) for value in rng.integers(-9, 10, number)]
    if kind == 1:
        return [float(value) for value in rng.integers(0, 2, number)]
    if kind == 2:
        return [float(value) for value in rng.integers(-(10**9), 10**9, number)]
    return [round(float(value), 4) for value in rng.normal(0, size, number)]


def _written(rng: Generator, value: float) -> str:
    """A number as people and programs write it."""
    whole = value == int(value)
    forms: list[Callable[[], str]] = [lambda: repr(value), lambda: f"{value:+}", lambda: f" {value!r}"]
    forms += [lambda: f"{value!r} ", lambda: f"{value:.17e}"]
    if whole:
        forms += [lambda: f"{int(value)}", lambda: f"{int(value):+}", lambda: f"{int(value):05}"] * 2
    return forms[rng.integers(len(forms))]()


def number_cells(rng: Generator, number: int) -> Cells:
    values: list[float | None] = list(_numbers(rng, number))
    form = rng.integers(3)
    whole = form == 0 and all(value == int(value) for value in values if value is not None)
    texts: list[Any] = [
        (f"{int(value or 0)}" if whole else repr(value)) if form == 0 else _written(rng, value or 0.0)
        for value in values
    ]
    if rng.random() < 0.5:
        marks = [MARKS[rng.integers(len(MARKS))], None]
        for row in np.flatnonzero(rng.random(number) < 0.3):
            values[row], texts[row] = None, marks[rng.integers(2)]
    return Cells(texts, values if any(value is not None for value in values) else None)


def word_cells(rng: Generator, number: int) -> Cells:
    words = [*rng.choice(WORDS, rng.integers(1, 6)).tolist(), *([None] if rng.random() < 0.5 else [])]
    return Cells([words[rng.integers(len(words))] for _ in range(number)])


def boolean_cells(rng: Generator, number: int) -> Cells:
    words = (("true", "false"), ("True", "False"), ("TRUE", "FALSE"), ("true", "0"))[rng.integers(4)]
    words = (*words, None) if rng.random() < 0.3 else words
    words = (*words, "NA") if rng.random() < 0.2 else words
    return Cells([words[rng.integers(len(words))] for _ in range(number)])


def near_number_cells(rng: Generator, number: int) -> Cells:
    forms = ("{},5", "{}%", "1,00{}", "{}", "many")
    used = [forms[rng.integers(len(forms))] for _ in range(rng.integers(1, 3))]
    return Cells([used[rng.integers(len(used))].format(rng.integers(1, 5)) for _ in range(number)])


def date_cells(rng: Generator, number: int) -> Cells:
    form = ("%Y-%m-%d", "%d.%m.%Y", "%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y%m%d")[rng.integers(4)]
    start = datetime(2024, 1, 1)
    return Cells([(start + timedelta(hours=7 * int(rng.integers(9)))).strftime(form) for _ in range(number)])


def text_cells(rng: Generator, number: int) -> Cells:
    """Texts, and numbers and dates that are meant as texts."""
    kind = rng.integers(5)
    if kind == 0:
        return Cells([f"{rng.integers(30):05}" for _ in range(number)])
    if kind == 1:
        return number_cells(rng, number)
    if kind == 2:
        return (boolean_cells, date_cells, near_number_cells)[rng.integers(3)](rng, number)
    words = [f"word{rng.integers(9)} {WORDS[rng.integers(len(WORDS))]}" for _ in range(number)]
    return Cells(
        [word if rng.random() < 0.8 else ("", None, "+12", "1.50")[rng.integers(4)] for word in words]
    )


def empty_cells(rng: Generator, number: int) -> Cells:
    return Cells([(None, "NA", "")[rng.integers(3)] if rng.random() < 0.5 else None] * number)


def constant_cells(rng: Generator, number: int) -> Cells:
    value = ("0.1", "7", "+7", "red", "true", "123456789012345678901")[rng.integers(6)]
    return Cells([value] * number)


def typed_cells(rng: Generator, number: int) -> Cells:
    """Values of the types that Parquet has."""
    draw = rng.integers(0, 5, number).tolist()
    kinds: list[Callable[[int], Any]] = [
        lambda i: date(2024, 1, 1 + i),
        lambda i: datetime(2024, 1, 1 + i, 12, 30, i),
        lambda i: time(i, 30),
        lambda i: i % 2 == 0,
        lambda i: f"{i:03}",
        lambda i: Decimal(i) / 4,
        lambda i: float("nan") if i == 0 else i / 3,
        lambda i: i,
        lambda i: f"+{i}",
    ]
    kind = int(rng.integers(len(kinds)))
    empty = rng.random() < 0.4
    cells = [None if empty and rng.random() < 0.3 else kinds[kind](i) for i in draw]
    known: list[float | None] | None = None
    if kind in (5, 6, 7):
        known = [None if cell is None or cell != cell else float(cell) for cell in cells]
        known = known if any(value is not None for value in known) else None
    return Cells(cells, known)


KINDS = (
    number_cells,
    number_cells,
    word_cells,
    boolean_cells,
    near_number_cells,
    date_cells,
    text_cells,
    empty_cells,
    constant_cells,
)


def random_table(seed: int, folder: Path) -> RandomTable:
    """A CSV, TSV, Parquet or JSON-lines file with columns of all kinds, and labels."""
    rng = np.random.default_rng(seed)
    number = int(rng.integers(12, 40))
    suffix = (".csv", ".csv", ".csv", ".tsv", ".parquet", ".jsonl")[rng.integers(6)]
    is_text_file = suffix in (".csv", ".tsv")
    kinds = KINDS if is_text_file else (*KINDS, typed_cells, typed_cells, typed_cells)
    columns = {"steady": number_cells(np.random.default_rng(seed + 10**6), number)}
    for column in range(int(rng.integers(1, 5))):
        columns[f"c{column}"] = kinds[rng.integers(len(kinds))](rng, number)
    options = DataOptions(text_buckets=32, validation=0.2)
    if rng.random() < 0.5:
        columns["text"] = (text_cells if is_text_file else kinds[rng.integers(len(kinds))])(rng, number)
        options = replace(options, text="te*")
    labels: dict[str, list[Any]] = {}
    if rng.random() < 0.7:
        for name in ("tag_a", "tag_b"):
            labels[name] = [("0", "1")[i % 2] if rng.random() < 0.9 else None for i in range(number)]
        options = replace(options, labels="tag_*")
    else:
        labels["kind"] = [("a", "b", "01")[i % 3] for i in range(number)]
        options = replace(options, label_column="kind")
    names = list(columns) + list(labels)
    if is_text_file and rng.random() < 0.1 and options.text is None and options.labels is None:
        renamed = {name: str(place) for place, name in enumerate(names)}
        options = replace(options, no_header=True, label_column=renamed["kind"])
        columns = {renamed[name]: cells for name, cells in columns.items()}
        labels = {renamed[name]: cells for name, cells in labels.items()}
    path = folder / f"{seed}{suffix}"
    cells = {name: column.cells for name, column in columns.items()} | labels
    if is_text_file:
        _write_text(path, cells, rng, header=not options.no_header)
    else:
        _write_typed(path, cells, rng)
    # Whole numbers that a Parquet file holds as text are text.
    numbers = {
        name: column.numbers
        for name, column in columns.items()
        if column.numbers is not None
        and name != "text"
        and (is_text_file or not any(isinstance(cell, str) for cell in column.cells))
    }
    return RandomTable(path, options, numbers)


def _write_text(path: Path, columns: dict[str, list[Any]], rng: Generator, *, header: bool) -> None:
    end = ("\n", "\r\n")[rng.integers(2)]
    rows = [["" if cell is None else cell for cell in row] for row in zip(*columns.values(), strict=True)]
    if path.suffix == ".tsv":  # quotes are characters there, and no cell can hold a line's end
        rows = [[str(cell).replace("\n", " ").replace("\t", " ") for cell in row] for row in rows]
        lines = ["\t".join(row) for row in ([list(columns)] if header else []) + rows]
        path.write_text("".join(line + end for line in lines), newline="")
        return
    with path.open("w", newline="") as file:
        quoting = (csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL)[rng.integers(3)]
        writer = csv.writer(file, lineterminator=end, quoting=quoting)
        if header:
            writer.writerow(columns)
        blank = rng.random() < 0.2
        for row in rows:
            writer.writerow(row)
            if blank and rng.random() < 0.2:
                file.write(end)


def _write_typed(path: Path, columns: dict[str, list[Any]], rng: Generator) -> None:
    frame = pl.DataFrame(columns, strict=False, infer_schema_length=None)
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    if path.suffix == ".parquet":
        for name in texts:
            if rng.random() < 0.2 and not name.startswith("tag"):
                kinds = (pl.Categorical, pl.Enum(frame[name].drop_nulls().unique().sort()))
                frame = frame.with_columns(pl.col(name).cast(kinds[rng.integers(2)]))
        frame.write_parquet(path)
        return
    decimals = frame.with_columns(
        pl.col(pl.Decimal).cast(pl.Float64)
    )  # of which JSON knows nothing, nor of NaN
    rows = decimals.with_columns(pl.col(pl.Float64).fill_nan(None)).to_dicts()
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
