"""All labels of a row in one cell: texts as they stand, lists, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl
import pytest

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.data.readers.table.label_columns import Labels
from tailmask.data.readers.table.table_dataset import read_table


def read(cells: list[str], folder: Path) -> Labels:
    with (folder / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("x", "tags"), *enumerate(cells)])
    return read_table(folder / "a.csv", DataOptions(label_column="tags"))[1]


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        (["250.0", "250.00", "038.9", "250.0"], ("038.9", "250.0", "250.00")),
        (["01", "02", "1"], ("01", "1", "02")),
        (["True", "False", "True"], ("False", "True")),
        (["12345678901234567890123", "7"], ("12345678901234567890123", "7")),
    ],
)
def test_labels_of_a_text_file_are_what_it_says(tmp_path: Path, cells: list[str], classes: tuple) -> None:
    assert read(cells, tmp_path).classes == classes
    (tmp_path / "a.tsv").write_text("".join(f"{cell}\t{row}\n" for row, cell in enumerate(cells)))
    options = DataOptions(label_column="0", no_header=True)
    assert read_table(tmp_path / "a.tsv", options)[1].classes == classes


@pytest.mark.parametrize("cell", ['"a,b"', '"[""a"", ""b""]"', ' "a" '])
def test_tags_in_quotes_of_a_tsv_file_are_refused(tmp_path: Path, cell: str) -> None:
    (tmp_path / "a.tsv").write_text(f"x\ttags\n1\ta\n2\t{cell}\n")
    with pytest.raises(UserError, match=r"cells of 'tags' in .*a\.tsv are in quotes, such as .*: save it as"):
        read_table(tmp_path / "a.tsv", DataOptions(label_column="tags"))
    (tmp_path / "a.tsv").write_text('x\ttags\n1\t"a", "b"\n2\ta "c"\n')  # quotes in a cell, none around it
    labels = read_table(tmp_path / "a.tsv", DataOptions(label_column="tags"))[1]
    assert labels.classes == ('"a"', '"b"', 'a "c"')


@pytest.mark.parametrize("column", ["labels", "tags"])
def test_labels_are_the_same_in_another_file(tmp_path: Path, column: str) -> None:
    (tmp_path / "a.csv").write_text(f"x,{column}\n" + "1,01\n2,02\n" * 5)
    (tmp_path / "t.csv").write_text(f'x,{column}\n1,"01,02"\n2,02\n')
    named = None if column == "labels" else column
    dataset = load(
        tmp_path / "a.csv", DataOptions(label_column=named, test_file=tmp_path / "t.csv", validation=0)
    )
    assert dataset.classes == ("01", "02")
    assert dataset.train.counts()[1].tolist() == [5, 5]
    assert dataset.test.targets.tolist() == [[1, 1], [0, 1]]


def test_columns_of_labels_and_one_that_holds_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,t_a,tags\n1,0,a\n")
    with pytest.raises(UserError, match=r"with --labels, .* with --label-column, not both$"):
        read_table(tmp_path / "a.csv", DataOptions(labels="t_*", label_column="tags"))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_lists_are_stripped_in_every_format(tmp_path: Path, suffix: str) -> None:
    table = pl.DataFrame({"x": [1, 2, 3, 4], "labels": [[" a", "b"], [""], None, ["b ", None]]})
    path = tmp_path / f"a{suffix}"
    table.write_ndjson(path) if suffix == ".jsonl" else table.write_parquet(path)
    labels = read_table(path, DataOptions())[1]
    assert labels.classes == ("a", "b")
    assert labels.targets.tolist() == [[1, 1], [0, 0], [-1, -1], [0, 1]]


@pytest.mark.parametrize("cell", [{"a": 1, "b": 0}, [{"name": "a"}], [["a"], ["b"]]])
def test_objects_are_no_labels(tmp_path: Path, cell: object) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"x": x, "labels": cell}) for x in range(4)))
    with pytest.raises(UserError, match=r"'labels' in .*a\.jsonl .*: write a list of .* --labels") as error:
        read_table(tmp_path / "a.jsonl", DataOptions())
    assert "\n" not in str(error.value)


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


@pytest.mark.parametrize("mark", ["NA", "nan", " ? ", "None", "-"])
def test_marks_of_empty_cells_are_labels_with_a_note(tmp_path: Path, mark: str) -> None:
    cells, name = ["a", "b", mark, f"b,{mark}", ""], mark.strip()
    labels = read(cells, tmp_path)
    assert sorted(labels.classes) == sorted(["a", "b", name])
    (note,) = [note for note in labels.notes if "is taken as a label" in note]
    assert note.startswith(f"{name!r} in 'tags'")
    assert "2 rows" in note
    assert not read(["a", "NAN bread", "a-b"], tmp_path).notes


@pytest.mark.parametrize("mark", ["NA", "nan", " ? ", "None", "-"])
def test_marks_of_empty_cells_among_lists_are_empty(tmp_path: Path, mark: str) -> None:
    labels = read(["['a', 'b']", mark, "[]", mark, mark], tmp_path)
    assert labels.targets.tolist() == [[1, 1], [-1, -1], [0, 0], [-1, -1], [-1, -1]]
    assert labels.notes[0].startswith("3 rows have nothing in 'tags'")


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
    with pytest.raises(UserError, match=r"row 2 of 'tags': .* is not a list") as error:
        read(["['a', 'b']", cell, "['a']"], tmp_path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("cells", "is_told"),
    [
        (["0", "1"], True),
        (["1", "0", ""], True),
        (["0.0", "1.0"], True),
        (["True", "False"], True),
        (["yes", "no"], True),
        (["0", "1", "2"], False),
        (["1"], False),
        (["a", "b"], False),
        (["0,1", "1"], False),
    ],
)
def test_a_column_of_yes_and_no_is_probably_one_label(
    tmp_path: Path, cells: list[str], is_told: bool
) -> None:
    labels = read(cells * 5, tmp_path)
    told = [note for note in labels.notes if "--labels 'tags'" in note]
    assert len(told) == is_told
    assert len(labels.classes) == len({tag for cell in cells for tag in cell.split(",") if tag})
