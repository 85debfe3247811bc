"""Frames of a program give the data that a file with the same table gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, Dataset, load


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


def test_what_is_no_frame() -> None:
    with pytest.raises(UserError, match="a polars or pandas frame, got ndarray"):
        load(np.zeros((3, 2)), labels=["a"])
    with pytest.raises(UserError, match="comma"):
        load(frame(), labels=["a,b"])
    with pytest.raises(UserError, match="the same name"):
        load(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), labels=["a"])
