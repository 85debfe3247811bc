"""Raw rows of data sets, and the formats in which new rows are read."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.sparse
import torch

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.data.readers import raw_parts
from tailmask.data.row_formats import ArrayFormat, TableFormat, format_from_json

TABLE = TableFormat(
    ("age", "paid", "note"), ("number", "boolean", "text"), text=("note",), text_buckets=64, keep=("age",)
)
ARRAYS = ArrayFormat("X", 2, ("a", "b"))


def numbers_frame(rows=100):
    generator = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "number": range(1, rows + 1),
            "x": generator.normal(size=rows),
            "k": generator.choice(["a", "b"], rows).tolist(),
            "empty": pl.Series([None] * rows, dtype=pl.String),
            "y": (generator.random(rows) < 0.3).astype(int),
        }
    )


@pytest.mark.parametrize("row_format", [TABLE, ARRAYS])
def test_formats_come_back_from_json(row_format):
    assert format_from_json(row_format.to_json()) == row_format


@pytest.mark.parametrize(
    ("row_format", "damage"),
    [
        (TABLE, {"kind": "images"}),
        (TABLE, {"names": []}),
        (TABLE, {"names": ["age", "age", "note"]}),
        (TABLE, {"names": ["age", 3, "note"]}),
        (TABLE, {"kinds": ["number", "boolean"]}),
        (TABLE, {"kinds": ["number", "boolean", "date"]}),
        (TABLE, {"kinds": ["number", "boolean", ["text"]]}),
        (TABLE, {"text": ["age"]}),
        (TABLE, {"text": ["other"]}),
        (TABLE, {"text_analyzer": "sound"}),
        (TABLE, {"text_terms": 0}),
        (TABLE, {"text_buckets": True}),
        (TABLE, {"keep": ["other"]}),
        (TABLE, {"header": 1}),
        (TABLE, {"surprise": 1}),
        (TABLE, {"names": None}),
        (TABLE, {"keep": ""}),
        (ARRAYS, {"num_features": -1}),
        (ARRAYS, {"num_features": 3}),
        (ARRAYS, {"num_features": "2"}),
        (ARRAYS, {"names": ["a"]}),
        (ARRAYS, {"names": "ab"}),
        (ARRAYS, {"key": None}),
    ],
)
def test_damaged_formats_are_refused(row_format, damage):
    with pytest.raises(UserError, match="damaged"):
        format_from_json(row_format.to_json() | damage)


@pytest.mark.parametrize("value", [None, [], {}, "table", {"kind": ["table"]}])
def test_what_is_no_format_is_refused(value):
    with pytest.raises(UserError, match="damaged"):
        format_from_json(value)


def test_columns_of_a_frame_are_found_by_name_and_cast():
    frame = pl.DataFrame({"note": [7], "other": [1], "paid": ["true"], "age": ["NA"]})
    assert TABLE.rows(frame).features.rows() == [(None, 1.0, "7")]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pl.DataFrame({"age": [1], "paid": [True]}), "lacks the columns note"),
        (pl.DataFrame({"age": ["old"], "paid": [True], "note": ["x"]}), "'old' in row 1 of the column 'age'"),
        (pl.DataFrame({"age": [1], "paid": [True], "note": [["x"]]}), "'note' holds values of the type List"),
        (np.zeros((1, 3)), "expected a polars or pandas frame"),
    ],
)
def test_frames_that_do_not_fit_are_refused(frame, words):
    with pytest.raises(UserError, match=words):
        TABLE.rows(frame)


@pytest.mark.parametrize("array", [np.zeros((2, 3)), np.zeros(2), np.array([["a", "b"]]), pl.DataFrame()])
def test_arrays_that_do_not_fit_are_refused(array):
    with pytest.raises(UserError):
        ARRAYS.rows(array)


def test_raw_rows_are_those_of_the_splits():
    frame = numbers_frame()
    data = load(frame, labels=["y"])
    raw = data.raw
    train, validation = len(data.train), len(data.validation)
    assert (raw.num_train, len(raw.development), len(raw.test)) == (
        train,
        train + validation,
        len(data.test),
    )
    assert raw.test.format.names == ("number", "x", "k")  # nothing can be learned from an empty column
    rows = [
        raw.development.take(np.arange(train)),
        raw.development.take(np.arange(train, len(frame) - len(raw.test))),
    ]
    for part, split in zip([*rows, raw.test], data.splits.values(), strict=True):
        assert part.format == raw.test.format
        assert torch.equal(torch.from_numpy(part.targets), split.targets)
        encoded = data.encoder.encode(part.features)
        assert torch.equal(torch.from_numpy(np.asarray(encoded)), split.inputs)
    numbers = np.concatenate([part.features["number"].to_numpy() for part in (raw.development, raw.test)])
    assert sorted(numbers) == list(range(1, 101))


def test_raw_rows_of_three_files_are_joined(tmp_path):
    """The second file has whole numbers where the first has fractions, and no ID."""
    frame = numbers_frame()
    frame[:60].write_csv(tmp_path / "train.csv")
    frame[60:80].with_columns(pl.lit(3).alias("x")).write_csv(tmp_path / "validation.csv")
    frame[80:].drop("number").write_csv(tmp_path / "test.csv")
    options = DataOptions(
        labels="y", validation_file=tmp_path / "validation.csv", test_file=tmp_path / "test.csv"
    )
    raw = load(tmp_path / "train.csv", options).raw
    assert raw.test.features.columns == ["x", "k"]
    assert raw.num_train == 60
    assert raw.development.features["x"].to_list() == [*frame["x"][:60], *[3.0] * 20]
    assert raw.test.features["x"].to_list() == frame["x"][80:].to_list()


def test_copies_of_a_row_have_the_same_group():
    frame = numbers_frame().drop("number")
    assert load(frame, labels=["y"]).raw.development.groups is None
    doubled = pl.concat([frame, frame[:30]])
    raw = load(doubled, labels=["y"]).raw
    x, groups = raw.development.features["x"].to_numpy(), raw.development.groups
    np.testing.assert_array_equal(x[:, None] == x, groups[:, None] == groups)
    assert not set(x) & set(raw.test.features["x"])


def test_files_of_arrays_have_raw_rows_in_their_own_form(tmp_path):
    values = scipy.sparse.random_array((60, 5), density=0.4, rng=0, format="csr")
    targets = np.eye(3, dtype=np.int8).repeat(20, 0)
    parts = {f"F_{part}": getattr(values, part) for part in ("data", "indices", "indptr", "shape")}
    np.savez(tmp_path / "a.npz", **parts, Y=targets)
    raw = load(tmp_path / "a.npz", DataOptions(inputs="F")).raw
    assert raw.test.format == ArrayFormat("F", 5)
    assert scipy.sparse.issparse(raw.development.features)
    found = scipy.sparse.vstack([piece.features for piece in raw.test.format.pieces(tmp_path / "a.npz", 7)])
    np.testing.assert_array_equal(found.toarray(), values.toarray())


def test_arff_files_have_raw_rows(tmp_path):
    header = "@relation r\n@attribute a numeric\n@attribute b {u,v}\n@attribute y {0,1}\n@data\n"
    lines = [f"{row},{'uv'[row % 2]},{int(row % 3 == 0)}" for row in range(30)]
    (tmp_path / "a.arff").write_text(header + "\n".join(lines) + "\n")
    raw = load(tmp_path / "a.arff", DataOptions(labels="y")).raw
    assert raw.test.format == ArrayFormat("X", 3, ("a", "b=u", "b=v"))
    found = np.concatenate([piece.features for piece in raw.test.format.pieces(tmp_path / "a.arff", 7)])
    np.testing.assert_array_equal(found[:, 0], np.arange(30))


def test_images_and_very_many_labels_have_no_raw_rows(tmp_path, monkeypatch):
    np.savez(tmp_path / "i.npz", X=np.zeros((20, 4, 4), dtype=np.uint8), Y=np.arange(20) % 2)
    assert load(tmp_path / "i.npz").raw is None
    monkeypatch.setattr(raw_parts, "MOST_LABELS", 99)
    assert load(numbers_frame(), labels=["y"]).raw is None
