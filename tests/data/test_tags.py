"""All labels of a row in one cell: lists that were written as text, and what is refused."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tailmask.data import DataOptions
from tailmask.data.labels import Labels
from tailmask.data.tables import read_table
from tailmask.errors import UserError


def read(cells: list[str], folder: Path) -> Labels:
    with (folder / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("x", "tags"), *enumerate(cells)])
    return read_table(folder / "a.csv", DataOptions(label_column="tags"))[1]


@pytest.mark.parametrize(
    "cells",
    [
        ["['a', 'b']", "[]", "['b']", "", "[ 'c, d' ]"],
        ['["a", "b"]', "[]", ' ["b"]', "", '["c, d", null]'],
        ["['b', \"a\",]", " [] ", '["b"]', "", "['c, d', None, '']"],
    ],
)
def test_lists_as_pandas_and_json_write_them(tmp_path: Path, cells: list[str]) -> None:
    labels = read(cells, tmp_path)
    assert labels.classes == ("a", "b", "c, d")
    assert labels.targets.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 0], [-1, -1, -1], [0, 0, 1]]


def test_lists_of_numbers(tmp_path: Path) -> None:
    labels = read(["[10, 9]", "[9]", "[]"], tmp_path)
    assert labels.classes == ("9", "10")
    assert labels.targets.tolist() == [[1, 1], [1, 0], [0, 0]]


def test_a_tag_in_brackets_among_others_is_a_tag(tmp_path: Path) -> None:
    assert read(["[sic]", "a,b", "b"], tmp_path).classes == ("[sic]", "a", "b")


@pytest.mark.parametrize(
    "cell",
    ["[a, b]", "['a' 'b']", "['a'\n 'b']", "['a', ['b']]", "[{'a': 1}]", "[f()]", "b", "[" * 500 + "]" * 500],
)
def test_what_is_no_list_is_refused(tmp_path: Path, cell: str) -> None:
    with pytest.raises(UserError, match=r"in row 2 of 'tags', .* is no list of labels") as error:
        read(["['a', 'b']", cell, "['a']"], tmp_path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300
