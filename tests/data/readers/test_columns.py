"""What became of each column of a table, and notes on what is probably a mistake."""

from __future__ import annotations

import dataclasses
from datetime import date, datetime, time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, Dataset, load
from tailmask.data.readers.table.table_dataset import read_table


def table(number: int = 60) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "age": [None if i % 20 == 0 else (i * 7) % 50 + 0.5 for i in range(number)],
            "paid": [i % 4 == 0 for i in range(number)],
            "city": [None if i % 30 == 0 else ("Bern", "Basel", "Zug")[i % 3] for i in range(number)],
            "comment": [f"remark {i}" for i in range(number)],
            "tag_a": [i % 2 for i in range(number)],
            "tag_b": [i % 3 // 2 for i in range(number)],
        }
    )


def read(frame: pl.DataFrame, folder: Path, **options: object) -> Dataset:
    frame.write_csv(folder / "a.csv")
    return load(folder / "a.csv", DataOptions(**{"labels": "tag_*", **options}))


def notes(dataset: Dataset) -> list[str]:
    return list(dataset.notes)


def test_every_column_has_its_use(tmp_path: Path) -> None:
    dataset = read(table(), tmp_path)
    assert [(column.name, column.use, column.inputs, column.empty) for column in dataset.columns] == [
        ("age", "number", 3, 3),
        ("paid", "boolean", 1, 0),
        ("city", "category", 3, 2),
        ("comment", "left out", 0, 0),
        ("tag_a", "label", 0, 0),
        ("tag_b", "label", 0, 0),
    ]
    assert [column.detail for column in dataset.columns][2:5] == [
        "3 values",
        "none of its values occurs twice",
        "",
    ]
    assert sum(column.inputs for column in dataset.columns) == dataset.shape[0]
    assert notes(dataset) == [
        "column 'comment' is left out: none of its values occurs twice; if it is text, name it in --text",
        "column 'age' has 3 empty cells, which are taken as its median",
        "column 'city' has 2 empty cells, which are taken as none of its values",
    ]


def test_choices_say_why_a_column_is_left_out(tmp_path: Path) -> None:
    chosen = {"text": "comment", "text_buckets": 32, "features": "age,city", "drop": "city,tag_b"}
    dataset = read(table(), tmp_path, **(chosen | {"features": "age"}))
    assert dataset.classes == ("tag_a",)
    assert {column.name: (column.use, column.detail) for column in dataset.columns[1:]} == {
        "paid": ("left out", "not among --features"),
        "city": ("left out", "as --drop says"),
        "comment": ("text", "hashed into 32 inputs"),
        "tag_a": ("label", ""),
        "tag_b": ("left out", "as --drop says"),
    }
    with pytest.raises(UserError, match="has no column 'city'"):
        read(table(), tmp_path, **chosen)
    with pytest.raises(UserError, match="has no column 'cty': did you mean 'city'"):
        read(table(), tmp_path, drop="cty")
    table(20).drop("city").write_csv(tmp_path / "t.csv")
    assert len(read(table(), tmp_path, drop="city", test_file=tmp_path / "t.csv").test) == 20


def test_a_column_without_a_name_is_named_as_any_other(tmp_path: Path) -> None:
    numbered = table().with_row_index("")  # as pandas and R write the numbers of rows
    assert any(
        "column '' is left out: it looks like an ID" in note for note in read(numbered, tmp_path).notes
    )
    dropped, first = read(numbered, tmp_path, drop=""), read(numbered, tmp_path, features="")
    assert (dropped.columns[0].use, dropped.columns[0].detail) == ("left out", "as --drop says")
    assert dropped.shape == read(table(), tmp_path).shape
    assert {column.detail for column in first.columns[1:5]} == {"not among --features"}
    assert read(numbered, tmp_path, text="", text_buckets=8).encoder.text == ("",)
    tags = table().select(pl.col("city").alias(""), "age", "tag_a")
    assert read(tags, tmp_path, labels=None, label_column="").classes == ("Basel", "Bern", "Zug")


@pytest.mark.parametrize(
    ("name", "numbers", "told"),
    [
        ("customer_id", [i * 17 % 1009 for i in range(60)], "is left out: it looks like an ID"),
        ("userId", [i * 17 % 1009 for i in range(60)], "is left out: it looks like an ID"),
        ("Nr.", range(100, 160), "is left out: it looks like an ID"),
        ("anything", range(1, 61), "has a different number in every row"),
        ("anything", [60 - i for i in range(60)], "has a different number in every row"),
        ("customer_id", [i // 2 for i in range(60)], None),
        ("customer_id", [i / 7 for i in range(60)], "has a different number in every row"),
        ("paid", [i * 17 % 1009 for i in range(60)], None),
        ("grid", [i * 17 % 1009 for i in range(60)], None),
    ],
)
def test_numbers_that_only_tell_rows_apart(
    tmp_path: Path, name: str, numbers: range, told: str | None
) -> None:
    frame = table().with_columns(pl.Series(name, list(numbers)))
    about = [note for note in notes(read(frame, tmp_path)) if note.startswith(f"column {name!r}")]
    assert [note.startswith(f"column {name!r} {told}") for note in about] == ([] if told is None else [True])
    chosen = read(frame, tmp_path, features=f"{name},age")
    assert name in [column.name for column in chosen.encoder.columns]


@pytest.mark.parametrize(
    ("values", "is_told"),
    [
        (["2024-02-03", "2023-12-24T10:00:00", None], True),
        (["3.2.2024", "24.12.2023", "1/2/2024"], True),
        (["10:30", "23:15:01", "0:00"], True),
        (["01.01.24", "24.12.23", "1/2/99"], True),
        (["2024-02-03", "soon", "later"], False),
        (["1.2.3", "1.2.4", "2.0.0"], False),
    ],
)
def test_dates_in_text(tmp_path: Path, values: list, is_told: bool) -> None:
    frame = table().with_columns(pl.Series("when", values * 20))
    (use,) = [column.use for column in read(frame, tmp_path).columns if column.name == "when"]
    assert use == ("date" if is_told else "category")
    dataset = read(frame, tmp_path, encoding="standard-1")
    assert any(note.startswith("column 'when' holds dates or times") for note in notes(dataset)) == is_told


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([date(2024, 2, 3), date(2023, 12, 24), None], "2024-02-03"),
        ([datetime(2024, 2, 3, 10, 30), datetime(2023, 12, 24), None], "2024-02-03 10:30:00.000000"),
        ([time(10, 30), time(23, 15, 1), None], "10:30:00"),
    ],
)
def test_dates_in_parquet_are_taken_as_those_in_text(tmp_path: Path, values: list, text: str) -> None:
    frame = table().with_columns(pl.Series("when", values * 20))
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_csv(tmp_path / "a.csv")
    options = DataOptions(labels="tag_*", test_file=tmp_path / "a.parquet")
    dataset = load(tmp_path / "a.parquet", options)
    (when,) = [column for column in dataset.encoder.columns if column.name == "when"]
    assert when.kind == "date"
    new = torch.cat(list(dataset.encoder.batches(tmp_path / "a.parquet", 64)))
    assert torch.equal(new, dataset.test.inputs)
    assert torch.equal(torch.cat(list(dataset.encoder.batches(tmp_path / "a.csv", 64))), new)
    first = load(tmp_path / "a.parquet", dataclasses.replace(options, encoding="standard-1"))
    (when,) = [column for column in first.encoder.columns if column.name == "when"]
    assert (len(when.values), when.values[-1 if text[0] == "2" else 0]) == (2, text)


def test_labels_that_are_learned_from(tmp_path: Path) -> None:
    frame = table().with_columns(
        tag_other=pl.Series([i % 5 // 4 for i in range(60)]),
        tag_count=pl.Series([i % 5 for i in range(60)]),
        member=pl.Series([i % 2 for i in range(60)]),
    )
    alike = [note for note in notes(read(frame, tmp_path, labels="tag_a,tag_b")) if "like the labels" in note]
    assert [note.split()[1] for note in alike] == ["'tag_other'"]
    assert not any("like the labels" in note for note in notes(read(table(), tmp_path)))


def test_texts_that_are_read_as_categories(tmp_path: Path) -> None:
    remarks = [f"remark {i}" if i > 9 else "fine" for i in range(60)]
    dataset = read(table().with_columns(pl.Series("comment", remarks)), tmp_path)
    assert any(note.startswith("column 'comment' is used as a category, but") for note in notes(dataset))


def test_many_columns_share_their_notes(tmp_path: Path) -> None:
    wide = table().with_columns(
        *(pl.Series(f"x{j}", [None if i % 9 == j % 9 else i / 7 for i in range(60)]) for j in range(30))
    )
    empty = [note for note in notes(read(wide, tmp_path)) if "empty cells" in note]
    assert empty[0].startswith("each of 31 columns (age, x0, x1, x2, x3 and 26 more) has empty cells")
    assert len(empty) == 2


@pytest.mark.parametrize("step", [1, 3])
def test_image_files_in_a_column_of_another_name(tmp_path: Path, step: int) -> None:
    files = pl.Series("file", [None, *(f"photos/{i // step}.{'jpg' if i % 2 else 'PNG'}" for i in range(59))])
    dataset = read(table().with_columns(files), tmp_path)
    told = [note for note in notes(dataset) if "'file'" in note and "empty" not in note]
    hint = "looks like image files: call the column `path` to learn from them"
    left_out = "is left out: none of its values occurs twice; it " if step == 1 else ""
    assert told == [f"column 'file' {left_out}{hint}"]
    if step == 1:
        with pytest.raises(
            UserError, match=r"nothing to learn from: .*file looks like image files: call the"
        ):
            read(pl.DataFrame([files, table()["tag_a"]]), tmp_path)


@pytest.mark.parametrize("name", ["Path", "PATH", " path"])
def test_the_column_of_image_files_in_any_case(tmp_path: Path, name: str) -> None:
    from PIL import Image

    for i in range(20):
        Image.new("RGB", (4, 4), (i, 0, 0)).save(tmp_path / f"{i}.png")
    frame = pl.DataFrame({name: [f"{i}.png" for i in range(20)], "tag_a": [0, 1] * 10})
    dataset = read(frame, tmp_path)
    assert dataset.shape == (3, 4, 4)
    frame.drop("tag_a").write_csv(tmp_path / "new.csv")
    assert sum(len(batch) for batch in dataset.encoder.batches(tmp_path / "new.csv", 8)) == 20
    doubled = frame.with_columns(path=pl.lit("0.png")) if name == "Path" else frame
    doubled.write_csv(tmp_path / "new.csv")
    batch = next(iter(dataset.encoder.batches(tmp_path / "new.csv", 20)))
    assert torch.equal(batch[0], batch[19]) == (name == "Path"), "`path` itself comes first"


def test_columns_beside_images_are_passed_over_with_a_note(tmp_path: Path) -> None:
    from PIL import Image

    for i in range(20):
        Image.new("RGB", (4, 4), (i, 0, 0)).save(tmp_path / f"{i}.png")
    frame = pl.DataFrame({"path": [f"{i}.png" for i in range(20)], "age": range(20), "tag_a": [0, 1] * 10})
    dataset = read(frame, tmp_path)
    assert notes(dataset)[0] == "only images are used as features: age is ignored"
    assert dataset.columns == ()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_that_is_empty_in_training_says_nothing(tmp_path: Path, suffix: str) -> None:
    late = [None if i < 30 else 1e6 * i for i in range(40)]
    frame = pl.DataFrame({"x": [float(i) for i in range(40)], "late": late, "l": [0, 1] * 20})
    path = tmp_path / f"a{suffix}"
    (frame.write_csv if suffix == ".csv" else frame.write_parquet)(path)
    options, training = DataOptions(labels="l"), np.arange(30)
    rows, labels = read_table(path, options)
    encoder = rows.fit(training, options)
    assert [column.name for column in encoder.columns] == ["x"]
    (use,) = [use for use in rows.uses(encoder) if use.name == "late"]
    assert (use.use, use.detail, use.inputs) == (
        "left out",
        "all of its cells are empty in the training rows",
        0,
    )
    assert f"column 'late' is left out: {use.detail}" in rows.notes(encoder, training, labels)
    new = torch.cat(list(encoder.batches(path, 16)))
    assert torch.equal(new, rows.encode(encoder, np.arange(40)))


def test_outliers_are_named_and_long_tails_are_not(tmp_path: Path) -> None:
    tail = [float(i) ** 2 if i % 3 == 0 else 0.0 for i in range(60)]
    cells = {"income": [1e9 if i == 30 else 100.0 + i % 17 for i in range(60)], "late": tail}
    frame = table().with_columns(pl.Series(name, values) for name, values in cells.items())
    told = [note for note in notes(read(frame, tmp_path)) if "outliers" in note]
    assert [note.split(",")[0] for note in told] == ["column 'income' has 1 outliers"]
