"""Frames of a program give the data that a file with the same table gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, Dataset, load
from tailmask.learners.matrix.row_encoders import fit_encoder


def frame(rows: int = 60) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "age": [None if i % 7 == 0 else float(i % 50) for i in range(rows)],
            "paid": rng.random(rows) < 0.5,
            "city": [None if i % 9 == 0 else ("Bern", "Basel")[i % 2] for i in range(rows)],
            "day": pl.Series(np.datetime64("2024-01-01") + rng.integers(0, 90, rows)).cast(pl.Date),
            "tag_a": np.arange(rows) % 2,
            "tag_b": [None if i % 10 == 0 else i % 3 // 2 for i in range(rows)],
        }
    )


def content(dataset: Dataset) -> list[torch.Tensor]:
    return [part for split in dataset.splits.values() for part in split.batch(torch.arange(len(split)))]


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "objects"])
def test_a_frame_is_as_good_as_a_file(tmp_path: Path, kind: str) -> None:
    polars = frame()
    polars.write_parquet(tmp_path / "a.parquet")
    expected = load(tmp_path / "a.parquet", DataOptions(labels="tag_*"))
    pandas = pd.DataFrame({name: polars[name].to_list() for name in polars.columns})
    pandas["day"] = pd.to_datetime(pandas["day"])
    kinds = {"polars": polars, "lazy": polars.lazy(), "pandas": pandas, "objects": pandas.astype(object)}
    found = load(kinds[kind], labels=["tag_a", "tag_b"])
    assert found.classes == ("tag_a", "tag_b")
    for one, other in zip(content(found), content(expected), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(
        torch.cat(list(found.encoder.batches(tmp_path / "a.parquet", 7))),
        torch.cat(list(expected.encoder.batches(tmp_path / "a.parquet", 7))),
    )


def test_the_source_tells_frames_apart() -> None:
    first, same, other = (load(each, labels=["tag_a"]).source for each in (frame(), frame(), frame(61)))
    assert first == same
    assert first != other
    assert first != load(frame(), DataOptions(encoding="standard-1"), labels=["tag_a"]).source


MIXED = [1, 2, True, "A", None] * 6
ALIKE = {
    "whole numbers": ([1, 2, 2, 1, None], [1, 2, 2, 1, None]),
    "floats": ([1.0, 2.0, 2.0, 1.0, None], [1, 2, 2, 1, None]),
    "booleans": ([True, None, True, True, None], [True, None, True, True, None]),
}


@pytest.mark.parametrize(("cells", "meant"), ALIKE.values(), ids=ALIKE)
@pytest.mark.parametrize("source", ["pandas", "objects", "parquet", "jsonl"])
@pytest.mark.parametrize("trained_on", ["pandas", "jsonl"])
def test_numbers_among_words_are_the_same_words_alone(
    tmp_path: Path, trained_on: str, source: str, cells: list, meant: list
) -> None:
    """A column of numbers and words is text; new rows may happen to hold numbers only, perhaps as floats."""
    tags = [0, 1] * 15
    path = tmp_path / "train.jsonl"
    rows = [{"code": code, "tag": tag} for code, tag in zip(MIXED, tags, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = path if trained_on == "jsonl" else pd.DataFrame(rows)
    dataset = load(data, DataOptions(labels="tag"))
    assert dataset.raw is not None
    fitted = fit_encoder(dataset.raw.development, "scaled")
    new = {
        "pandas": lambda: pd.DataFrame({"code": cells}),
        "objects": lambda: pd.DataFrame({"code": pd.Series(cells, dtype=object)}),
        "parquet": lambda: pl.DataFrame({"code": cells}),
        "jsonl": lambda: pl.read_ndjson(
            "".join(json.dumps({"code": cell}) + "\n" for cell in cells).encode()
        ),
    }[source]()
    expected = pl.DataFrame({"code": [None if each is None else str(each).lower() for each in meant]})
    read = dataset.raw.development.format.rows
    np.testing.assert_array_equal(fitted.encode(read(new)), fitted.encode(read(expected)))
    assert fitted.encode(read(new)).any(axis=1).all()


def test_what_is_no_frame() -> None:
    with pytest.raises(UserError, match="a polars or pandas frame, got ndarray"):
        load(np.zeros((3, 2)), labels=["a"])
    with pytest.raises(UserError, match="comma"):
        load(frame(), labels=["a,b"])
    with pytest.raises(UserError, match="the same name"):
        load(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), labels=["a"])
