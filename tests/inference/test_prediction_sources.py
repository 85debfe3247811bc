"""What predictions are asked for: tables that fit the model, and what is said of those that do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest
import torch
from finished_runs import MadeInputs, predictor_of
from torch import nn

from tailmask._util.messages import UserError
from tailmask.data.encoders.array import ArrayEncoder
from tailmask.inference import Predictor, write_predictions


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_no_samples_give_an_empty_table(suffix, table_run, tmp_path):
    (tmp_path / "new.csv").write_text("colour,age\n")
    target = tmp_path / f"out{suffix}"
    assert write_predictions(Predictor.load(table_run), tmp_path / "new.csv", target) == 0
    if suffix != ".jsonl":
        frame = (pl.read_csv if suffix == ".csv" else pl.read_parquet)(target)
        assert frame.columns == ["row", "labels", "tag_a", "tag_b", "tag_c"]
        assert frame.height == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour\nred\n", "lacks the columns? age"),
        ("age,shade\n1,red\n", "lacks the columns? colour"),
        ("colour,age\nred,old\n", "has 'old' in row 1 of the column 'age'"),
    ],
)
def test_tables_that_do_not_fit(text, message, table_run, tmp_path):
    (tmp_path / "new.csv").write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        write_predictions(Predictor.load(table_run), tmp_path / "new.csv", tmp_path / "out.csv")
    assert "\n" not in str(caught.value)


def test_columns_in_another_order_and_others_between(table_run, tmp_path):
    predictor = Predictor.load(table_run)
    (tmp_path / "one.csv").write_text("colour,age\nred,1.5\n")
    (tmp_path / "two.csv").write_text("age,extra,colour\n1.5,7,red\n")
    for name in ("one", "two"):
        write_predictions(predictor, tmp_path / f"{name}.csv", tmp_path / f"{name}.jsonl")
    assert (tmp_path / "one.jsonl").read_text() == (tmp_path / "two.jsonl").read_text()


def test_a_source_that_is_not_there(table_run, tmp_path):
    predictor = Predictor.load(table_run)
    with pytest.raises(UserError, match=r"there is no file .*nothing\.csv$"):
        write_predictions(predictor, tmp_path / "nothing.csv", tmp_path / "out.csv")
    with pytest.raises(
        UserError, match=r"there is no file digits: predict reads files; a run keeps its outputs"
    ):
        write_predictions(predictor, "digits", tmp_path / "out.csv")


def test_a_source_that_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "in.arff").mkdir()
    encoder = ArrayEncoder(3, np.zeros(3), np.ones(3), names=("a", "b", "c"))
    with pytest.raises(UserError, match=r"in\.arff cannot be read: Is a directory"):
        write_predictions(predictor_of(encoder, nn.Linear(3, 2)), tmp_path / "in.arff", tmp_path / "out.csv")


@dataclass(frozen=True)
class Torn(MadeInputs):
    """Inputs on a disk that fails after the first of them."""

    def batches(self, path, batch_size):
        yield from super().batches(path, batch_size)
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_a_source_that_ends_in_an_error_is_named(suffix, tmp_path):
    predictor = predictor_of(Torn([torch.randn(5, 3)] * 2, []), nn.Linear(3, 2))
    source = tmp_path / "source"
    source.mkdir()
    with pytest.raises(UserError, match=r"/source cannot be read: Input/output error"):
        write_predictions(predictor, source, tmp_path / f"out{suffix}")
    assert list(tmp_path.iterdir()) == [source]


class InfinityLessItself(nn.Module):
    def forward(self, inputs):
        large = inputs[:, :2] * 10
        return large - large


def test_values_that_the_network_cannot_take_are_named(tmp_path):
    inputs = torch.randn(6, 3)
    inputs[4] = 3e38
    predictor = predictor_of(MadeInputs([torch.randn(5, 3), inputs], []), InfinityLessItself())
    with pytest.raises(UserError, match=r"row 9 of .* \(the first is 0\) has values too large"):
        write_predictions(predictor, tmp_path, tmp_path / "out.csv")
