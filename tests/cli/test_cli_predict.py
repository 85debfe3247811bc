"""`tailmask predict`: what it writes, what it says, what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from inference.finished_runs import random_model, train_table, write_table
from tailmask.cli import main


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return train_table(tmp_path_factory.mktemp("predict"))


@pytest.fixture
def new(tmp_path) -> Path:
    return write_table(tmp_path / "new.csv", 20, labels=False, seed=1)


def refused(capsys, *arguments: object) -> str:
    """The sentence with which the command is refused."""
    assert main(["predict", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("tailmask: ").strip()


def predicted(*arguments: object) -> pl.DataFrame:
    assert main(["predict", *map(str, arguments)]) == 0
    return pl.read_parquet(arguments[arguments.index("-o") + 1])


def test_labels_by_tuned_thresholds_unless_told_otherwise(run, new, tmp_path, capsys):
    out = tmp_path / "out.parquet"
    tuned = predicted(run, new, "-o", out)
    told = capsys.readouterr()
    assert told.out == f"{out}: 20 rows, labels by the thresholds that were tuned on validation data\n"
    assert told.err == ""
    assert tuned.columns == ["row", "labels", "tag_a", "tag_b", "tag_c"]
    assert predicted(run, new, "-o", out, "--force", "--thresholds", "tuned").equals(tuned)
    capsys.readouterr()
    low = predicted(run, new, "-o", out, "--force", "--thresholds", "0.01")
    assert capsys.readouterr().out == f"{out}: 20 rows, labels from a probability of 0.01 on\n"
    assert low.drop("labels").equals(tuned.drop("labels"))
    assert low["labels"].list.len().sum() > tuned["labels"].list.len().sum()


def test_prior_shift_changes_probabilities_and_no_tuned_label(run, new, tmp_path):
    plain = predicted(run, new, "-o", tmp_path / "plain.parquet")
    shifted = predicted(run, new, "-o", tmp_path / "shifted.parquet", "--prior-shift")
    assert shifted["labels"].equals(plain["labels"])
    assert not shifted["tag_c"].equals(plain["tag_c"])


def test_a_column_tells_rows_apart(run, new, tmp_path):
    frame = predicted(run, new, "-o", tmp_path / "out.parquet", "--id", "code")
    assert frame.columns[0] == "code"
    assert frame["code"].to_list()[:2] == ["0000", "0001"]


def test_an_exported_model_predicts_like_its_run(run, new, tmp_path, capsys):
    file = tmp_path / "model.safetensors"
    assert main(["export", str(run), "--format", "safetensors", "-o", str(file)]) == 0
    assert capsys.readouterr().out == f"{file} and {file.with_suffix('.json')}\n"
    first = predicted(run, new, "-o", tmp_path / "a.parquet")
    assert predicted(file, new, "-o", tmp_path / "b.parquet").equals(first)


def test_mistakes_get_one_sentence(run, new, tmp_path, capsys):
    out = tmp_path / "out.csv"
    assert refused(capsys, tmp_path / "nothing", new, "-o", out).endswith(
        "nothing is not a run: it has no run.json"
    )
    assert "there is no file" in refused(capsys, run, tmp_path / "no.csv", "-o", out)
    assert "must end with .csv or .parquet or .jsonl" in refused(capsys, run, new, "-o", "out.xlsx")
    assert "a number" in refused(capsys, run, new, "-o", out, "--thresholds", "half")
    assert "between 0 and 1" in refused(capsys, run, new, "-o", out, "--thresholds", "50")
    assert refused(capsys, run, new).startswith("--out is missing")
    new.write_text("colour\nred\n")
    assert "age" in refused(capsys, run, new, "-o", out)
    assert not out.exists()
    out.write_text("old")
    assert "is there already" in refused(capsys, run, new, "-o", out)
    assert out.read_text() == "old"


def test_one_label_a_sample(tmp_path, capsys):
    model = random_model(
        tmp_path / "m.safetensors",
        single_label=True,
        thresholds=None,
        encoder={
            "kind": "arrays",
            "num_features": 3,
            "mean": None,
            "scale": [1.0] * 3,
            "key": "X",
            "names": None,
        },
    )
    np.savez(tmp_path / "new.npz", X=np.random.default_rng(0).normal(size=(9, 3)))
    frame = predicted(model, tmp_path / "new.npz", "-o", tmp_path / "out.parquet")
    assert capsys.readouterr().out.endswith("9 rows, each with its most probable label\n")
    best = ["cat" if cat > dog else "dog" for cat, dog in frame.select("cat", "dog").rows()]
    assert [label for (label,) in frame["labels"]] == best


def test_help_says_what_is_the_default(capsys):
    assert main(["predict", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert text.startswith("Usage: tailmask predict --out PATH [OPTIONS] RUN INPUTS")
    assert "[default: tuned if the run has tuned thresholds, else 0.5]" in text
