"""Columns named by --text: training and new files give the same words for every type of column."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from tailmask._util.messages import UserError
from tailmask.cli import main
from tailmask.data import DataOptions, Dataset, load

TEXT = {"labels": "l", "text": "code", "text_buckets": 64, "validation": 0}


def save(cells: list[Any], path: Path) -> Path:
    """A table of one column and one label."""
    table = pl.DataFrame({"code": cells, "l": [i % 2 for i in range(len(cells))]})
    writers = {".csv": table.write_csv, ".parquet": table.write_parquet, ".jsonl": table.write_ndjson}
    writers.get(path.suffix, lambda target: table.write_csv(target, separator="\t"))(path)
    return path


def read(path: Path, **options: object) -> Dataset:
    return load(path, DataOptions(**{**TEXT, "test_file": path, **options}))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize(
    "cells",
    [
        [f"{i % 7:05}" for i in range(40)],
        [f"+{i % 7 + 10} -{i % 5 + 10}" for i in range(40)],
        [f"{i % 7 + 10}.50" for i in range(40)],
        [("true", "FALSE", "NA", None)[i % 4] for i in range(40)],
        [i % 7 + 100 for i in range(40)],
        [i % 7 + 100.125 for i in range(40)],
        [i % 3 == 0 for i in range(40)],
        [date(2024, 1, i % 7 + 10) for i in range(40)],
        [datetime(2024, 1, i % 7 + 10, 12, 30) for i in range(40)],
    ],
)
def test_new_files_have_the_words_of_training(tmp_path: Path, suffix: str, cells: list[Any]) -> None:
    dataset = read(save(cells, tmp_path / f"a{suffix}"))
    trained = torch.from_numpy(dataset.train.inputs.toarray())
    assert trained.unique(dim=0).shape[0] > 1  # the words tell rows apart
    assert torch.equal(torch.from_numpy(dataset.test.inputs.toarray()), trained)
    for batch_size in (7, 100):
        assert torch.equal(
            torch.cat(list(dataset.encoder.batches(tmp_path / f"a{suffix}", batch_size))), trained
        )


def test_zeros_in_front_belong_to_the_word(tmp_path: Path) -> None:
    cells = [("01234", "1234")[i % 2] for i in range(20)]
    inputs = read(save(cells, tmp_path / "a.csv")).train.inputs.toarray()
    assert (inputs[0] != inputs[1]).any()


def test_labels_that_the_pattern_matches_are_labels(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "code,note,l\n" + "".join(f"0{i % 5}0,w{i % 3},{i % 2}\n" for i in range(20))
    )
    dataset = read(tmp_path / "a.csv", text="*")
    assert dataset.encoder.text == ("code", "note")
    assert dataset.train.targets[:2].tolist() == [[0], [1]]


@pytest.mark.parametrize("cell", [["a", "b"], timedelta(days=1), {"a": 1}, b"\xff"])
def test_values_that_are_no_text_get_one_sentence(tmp_path: Path, cell: object) -> None:
    path = save([cell] * 20, tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet: the column 'code' holds .*, not text: write") as error:
        read(path)
    assert "\n" not in str(error.value)
    encoder = read(save([f"w{i % 3}" for i in range(20)], tmp_path / "b.parquet")).encoder
    with pytest.raises(UserError, match=r"a\.parquet: the column 'code' holds .*, not text"):
        list(encoder.batches(path, 10))


def test_the_command_line_says_it_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save([["a", "b"]] * 20, tmp_path / "a.parquet")
    assert main(["data", str(path), "--labels", "l", "--text", "code"]) == 2
    error = capsys.readouterr().err
    assert "'code'" in error
    assert "Traceback" not in error
