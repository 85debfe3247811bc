"""Numbers in text: marks for empty cells, spaces, and what keeps a column from being a number."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl
import pytest
import torch

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, Dataset, Encoder, load
from tailmask.data.readers.table.table_dataset import read_table

MARKS = ["NA", "N/A", "#N/A", "<NA>", "nan", "NaN", "null", "None", "?", "-", " "]


def read(cells: list[str | None], path: Path, **options: object) -> Dataset:
    """A table of one column and one label, with the cells written as they are."""
    frame = pl.DataFrame({"x": cells, "l": [i % 2 for i in range(len(cells))]}, strict=False)
    writers = {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".jsonl": frame.write_ndjson}
    writers.get(path.suffix, lambda target: frame.write_csv(target, separator="\t"))(path)
    return load(path, DataOptions(**{"labels": "l", **options}))


def everything(encoder: Encoder, path: Path) -> torch.Tensor:
    return torch.cat(list(encoder.batches(path, 16)))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("mark", MARKS)
def test_marks_of_empty_cells_leave_a_column_a_number(tmp_path: Path, suffix: str, mark: str) -> None:
    numbers = [str(i * 7 % 50) for i in range(60)]
    marked = [mark if i % 20 == 0 else number for i, number in enumerate(numbers)]
    empty = [None if i % 20 == 0 else int(number) for i, number in enumerate(numbers)]
    dataset, expected = read(marked, tmp_path / f"a{suffix}"), read(empty, tmp_path / f"b{suffix}")
    assert dataset.columns[0] == expected.columns[0]
    assert (dataset.columns[0].use, dataset.columns[0].empty) == ("number", 3)
    assert dataset.notes == expected.notes
    assert torch.equal(dataset.train.inputs, expected.train.inputs)
    for model in (dataset, expected):
        for name in ("a", "b"):
            inputs = everything(model.encoder, tmp_path / f"{name}{suffix}")
            assert torch.equal(inputs, everything(expected.encoder, tmp_path / f"b{suffix}"))


@pytest.mark.parametrize("cell", [" {}", "{} ", " {}\t"])
def test_spaces_around_numbers(tmp_path: Path, cell: str) -> None:
    dataset = read([cell.format(i * 7 % 50) for i in range(60)], tmp_path / "a.csv")
    assert (dataset.columns[0].use, dataset.columns[0].empty) == ("number", 0)
    assert everything(dataset.encoder, tmp_path / "a.csv").std() > 0.5


def test_numbers_that_a_file_holds_as_text_stay_categories(tmp_path: Path) -> None:
    dataset = read([f"{i % 3:03}" for i in range(60)], tmp_path / "a.parquet")
    assert dataset.columns[0].use == "category"
    assert [note for note in dataset.notes if "column" in note] == []


def test_a_test_file_may_have_marks_and_fractions_where_training_has_whole_numbers(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,l\nNA,0\n 2.5,1\n")
    options = {"test_file": tmp_path / "t.csv", "validation": 0}
    dataset = read([str(i % 6) for i in range(60)], tmp_path / "a.csv", encoding="standard-1", **options)
    assert dataset.test.inputs.tolist() == [[0.0], [0.0]]
    (tmp_path / "t.csv").write_text("x,l\nunknown,0\n2.5,1\n")
    with pytest.raises(UserError, match=r"t\.csv has 'unknown' in row 1 of the column 'x'"):
        read([str(i % 6) for i in range(60)], tmp_path / "a.csv", **options)


def test_a_test_file_follows_training_in_what_is_a_category(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,l\n1,0\nNA,1\n")
    options = {"test_file": tmp_path / "t.csv", "validation": 0}
    dataset = read([("1", "2", "many")[i % 3] for i in range(60)], tmp_path / "a.csv", **options)
    assert dataset.test.inputs.tolist() == [[1, 0, 0], [0, 0, 0]]


def test_marks_among_words_are_words(tmp_path: Path) -> None:
    dataset = read([("NA", "DE", "-")[i % 3] for i in range(60)], tmp_path / "a.csv")
    assert dataset.encoder.columns[0].values == ("-", "DE", "NA")
    assert [note for note in dataset.notes if "column" in note] == []


def test_marks_in_labels_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,l\n" + "".join(f"{i},{('1', 'NA', '0')[i % 3]}\n" for i in range(30)))
    dataset = load(tmp_path / "a.csv", DataOptions(labels="l", test_file=tmp_path / "a.csv", validation=0))
    assert dataset.train.targets[:3].tolist() == [[1], [-1], [0]]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("mark", MARKS)
def test_labels_with_a_point_beside_marks(tmp_path: Path, suffix: str, mark: str) -> None:
    cells = pl.DataFrame({"x": range(5), "l": ["1.0", mark, " 0.0", "1", "-1"]})
    writers = {".csv": cells.write_csv, ".parquet": cells.write_parquet, ".jsonl": cells.write_ndjson}
    path = tmp_path / f"a{suffix}"
    writers.get(suffix, lambda target: cells.write_csv(target, separator="\t"))(path)
    _, labels = read_table(path, DataOptions(labels="l"))
    assert labels.targets.tolist() == [[1], [-1], [0], [1], [-1]]


@pytest.mark.parametrize("cell", [None, "NA", " "])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_an_empty_column_is_called_empty(tmp_path: Path, suffix: str, cell: str | None) -> None:
    frame = pl.DataFrame({"x": [i / 7 for i in range(40)], "e": [cell] * 40, "l": [0, 1] * 20})
    writers = {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".jsonl": frame.write_ndjson}
    writers[suffix](tmp_path / f"a{suffix}")
    dataset = load(tmp_path / f"a{suffix}", DataOptions(labels="l"))
    assert (dataset.columns[1].use, dataset.columns[1].detail) == ("left out", "all of its cells are empty")
    assert dataset.notes == ("column 'e' is left out: all of its cells are empty",)
    assert dataset.shape == (2,)


def test_an_empty_column_of_numbers_is_left_out(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": [i / 7 for i in range(40)], "e": [None, float("nan")] * 20, "l": [0, 1] * 20})
    frame.write_parquet(tmp_path / "a.parquet")
    dataset = load(tmp_path / "a.parquet", DataOptions(labels="l"))
    assert dataset.notes == ("column 'e' is left out: all of its cells are empty",)


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        (
            ["unknown" if i % 20 == 0 else str(i % 7) for i in range(60)],
            "column 'x' holds numbers in 95 % of its cells, but also 'unknown'",
        ),
        (
            [f"{i % 7},{i % 3}" for i in range(60)],
            "column 'x' holds numbers such as '0,0', so it is not read as a number: "
            "write 1.5 for 1,5, 1000 for 1,000 and 12 for 12%",
        ),
        (
            [f"{i * 7 % 50 / 10}".replace(".", ",") + ("" if i % 4 else "%") for i in range(60)],
            "such as '0,0%'",
        ),
        (["-12.5 %" if i % 9 else "NA" for i in range(60)], "such as '-12.5 %'"),
        (["999" if i % 9 else "1,234,567.8" for i in range(60)], "such as '1,234,567.8'"),
        (["1'000" if i % 9 else "2.000,5" for i in range(60)], "such as '2.000,5'"),
        (
            ["1,5" if i % 9 else "none of it" for i in range(60)],
            "in 88 % of its cells, but also 'none of it'",
        ),
        (["3" if i % 5 else "many" for i in range(60)], "in 80 % of its cells, but also 'many'"),
        ([f"1.{i % 3}.{i % 2}" for i in range(60)], None),
        (["3" if i % 3 else "many" for i in range(60)], None),
    ],
)
def test_what_keeps_a_column_from_being_a_number(tmp_path: Path, cells: list[str], note: str | None) -> None:
    dataset = read(cells, tmp_path / "a.csv")
    assert dataset.columns[0].use == "category"
    told = [each for each in dataset.notes if "holds numbers" in each]
    assert [note in each for each in told] == ([] if note is None else [True])


def test_a_column_of_many_near_numbers_is_not_called_a_text(tmp_path: Path) -> None:
    cells = [f"{i // 2},{i // 2 % 10}" if i < 10 else f"{i},5" for i in range(60)]
    dataset = read(cells, tmp_path / "a.csv")
    assert [note for note in dataset.notes if "holds numbers" in note]
    assert not [note for note in dataset.notes if "--text" in note]


def test_many_near_numbers_share_a_note(tmp_path: Path) -> None:
    columns = {f"x{j}": [f"{i % 7},{j}" for i in range(60)] for j in range(9)}
    pl.DataFrame(columns | {"l": [0, 1] * 30}).write_csv(tmp_path / "a.csv")
    note, *_ = load(tmp_path / "a.csv", DataOptions(labels="l")).notes
    assert note.startswith("each of 9 columns (x0, x1, x2, x3, x4 and 4 more) mostly holds numbers")


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("form", ["{:+}", "{:+},{}", "{:+.1f}", " {:+} "])
def test_numbers_with_a_sign(tmp_path: Path, suffix: str, form: str) -> None:
    forms = form.split(",")
    numbers = [i * 7 % 50 - 20 for i in range(60)]
    signed = [forms[i % len(forms)].format(number) for i, number in enumerate(numbers)]
    dataset, expected = read(signed, tmp_path / f"a{suffix}"), read(numbers, tmp_path / f"b{suffix}")
    assert dataset.columns[0] == expected.columns[0]
    assert dataset.columns[0].use == "number"
    assert torch.equal(dataset.train.inputs, expected.train.inputs)
    new = everything(expected.encoder, tmp_path / f"b{suffix}")
    assert torch.equal(everything(dataset.encoder, tmp_path / f"a{suffix}"), new)
    assert torch.equal(everything(expected.encoder, tmp_path / f"a{suffix}"), new)


@pytest.mark.parametrize("cell", ["1,5", "1,000", "12%", "many"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_new_cells_that_are_no_plain_numbers(tmp_path: Path, suffix: str, cell: str) -> None:
    encoder = read([f"{i % 7}.5" for i in range(60)], tmp_path / "a.csv").encoder
    cells = pl.DataFrame({"x": ["2.5"] * 20 + [cell]})
    path = tmp_path / f"new{suffix}"
    (cells.write_csv if suffix == ".csv" else cells.write_parquet)(path)
    with pytest.raises(UserError, match=rf"new.* has '{cell}' in row 21 of the column 'x'") as error:
        everything(encoder, path)
    assert ("write 1.5 for 1,5" in str(error.value)) == (cell != "many")
    assert "conversion" not in str(error.value)


def test_new_values_of_another_type(tmp_path: Path) -> None:
    encoder = read([f"{i % 7}.5" for i in range(60)], tmp_path / "a.csv").encoder
    for cell in (date(2024, 1, 2), [1.5]):
        pl.DataFrame({"x": [cell]}).write_parquet(tmp_path / "new.parquet")
        with pytest.raises(UserError, match=r"the column 'x' holds .*, but held numbers in training"):
            everything(encoder, tmp_path / "new.parquet")
