"""`tailmask predict`: what it writes, what it says, what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from inference.finished_runs import random_model, train_table, write_table
from tailmask.calibration import DecisionRule
from tailmask.cli import main
from tailmask.runs.array_file import write_arrays
from tailmask.runs.reader import Run


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
    assert told.out == f"{out}: 20 rows, labels by tuned thresholds\n"
    assert told.err == ""
    assert tuned.columns == ["row", "labels", "tag_a", "tag_b", "tag_c"]
    assert predicted(run, new, "-o", out, "--force", "--thresholds", "tuned").equals(tuned)
    capsys.readouterr()
    low = predicted(run, new, "-o", out, "--force", "--thresholds", "0.01")
    assert capsys.readouterr().out == f"{out}: 20 rows, labels with a probability of at least 0.01\n"
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
        "nothing is not a run: there is no such folder"
    )
    assert "there is no file" in refused(capsys, run, tmp_path / "no.csv", "-o", out)
    assert "must end with .csv or .parquet or .jsonl" in refused(capsys, run, new, "-o", "out.xlsx")
    assert "a number" in refused(capsys, run, new, "-o", out, "--thresholds", "half")
    assert "between 0 and 1" in refused(capsys, run, new, "-o", out, "--thresholds", "50")
    assert "exclude each other" in refused(
        capsys, run, new, "-o", out, "--decide", "f1", "--thresholds", "0.5"
    )
    assert "a decision rule is f1" in refused(capsys, run, new, "-o", out, "--decide", "accuracy")
    assert "--run plm needs the folder of a study" in refused(capsys, run, new, "-o", out, "--run", "plm")
    new.write_text("colour\nred\n")
    assert "age" in refused(capsys, run, new, "-o", out)
    assert not out.exists()
    out.write_text("old")
    assert "already exists" in refused(capsys, run, new, "-o", out)
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


@pytest.mark.parametrize("rule", ["f1", "precision=0.9", "recall=0.8", "cost=5"])
def test_labels_by_thresholds_for_what_is_needed(run, new, tmp_path, capsys, rule):
    frame = predicted(run, new, "-o", tmp_path / "out.parquet", "--decide", rule)
    assert f"labels by thresholds for {rule}" in capsys.readouterr().out
    arrays = Run(run).predictions()
    thresholds = DecisionRule.parse(rule).fit(
        torch.from_numpy(arrays["validation_logits"]).sigmoid(),
        torch.from_numpy(arrays["validation_targets"]),
    )
    classes = ["tag_a", "tag_b", "tag_c"]
    for labels, *values in frame.select("labels", *classes).rows():
        over = [
            name for name, value, least in zip(classes, values, thresholds, strict=True) if value >= least
        ]
        assert labels == over


def test_a_number_of_labels_for_each_row(run, new, tmp_path, capsys):
    frame = predicted(run, new, "-o", tmp_path / "out.parquet", "--decide", "top=2")
    assert "each with its 2 most probable labels" in capsys.readouterr().out
    assert frame["labels"].list.len().unique().to_list() == [2]


def test_rules_need_validation_outputs(run, new, tmp_path, capsys):
    file = tmp_path / "m.safetensors"
    assert main(["export", str(run), "--format", "safetensors", "-o", str(file)]) == 0
    capsys.readouterr()
    out = tmp_path / "out.csv"
    assert "name the run's folder" in refused(capsys, file, new, "-o", out, "--decide", "recall=0.9")
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    arrays = {name: values for name, values in Run(run).predictions().items() if "validation" not in name}
    write_arrays(copy / "predictions.npz", arrays)
    assert "needs validation outputs" in refused(capsys, copy, new, "-o", out, "--decide", "recall=0.9")
    assert not out.exists()


def study(folder: Path, run: Path, decision: str | None) -> Path:
    """A study of two methods that chose the second one."""
    for name in ("bce_seed=0", "plm_seed=0", "plm_seed=1"):
        shutil.copytree(run, folder / "runs" / name)
        path = folder / "runs" / name / "run.json"
        record = json.loads(path.read_text()) | {"name": name[:3], "seed": int(name[-1])}
        path.write_text(json.dumps(record))
    chosen = (
        None if decision is None else {"method": "plm", "decision": decision, "seed": 1, "run": "plm_seed=1"}
    )
    (folder / "study.json").write_text("{}")
    record = {"format": "tailmask.compare/1", "comparison": {"chosen": chosen}}
    (folder / "comparison.json").write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize(
    ("decision", "options"),
    [
        ("tuned thresholds", []),
        ("default", ["--thresholds", "0.5"]),
        ("prior shift", ["--prior-shift", "--thresholds", "0.5"]),
        ("recall=0.9", ["--decide", "recall=0.9"]),
        ("top=2", ["--decide", "top=2"]),
    ],
)
def test_a_study_predicts_with_what_it_chose(run, new, tmp_path, capsys, monkeypatch, decision, options):
    folder = study(tmp_path / "study", run, decision)
    expected = predicted(run, new, "-o", tmp_path / "run.parquet", *options)
    shutil.rmtree(folder / "runs" / "plm_seed=0")  # the chosen run is the other one
    assert predicted(folder, new, "-o", tmp_path / "study.parquet").equals(expected)
    (folder / "ensembles").mkdir()  # where studies keep those
    (folder / "runs" / "plm_seed=1").rename(folder / "ensembles" / "plm_seed=1")
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["predict", "study", "new.csv"]) == 0
    assert capsys.readouterr().out.startswith("new-predicted.csv: 20 rows by plm")
    assert predicted(folder, new, "-o", tmp_path / "a.parquet", "--run", "bce").height == 20
    assert main(["export", "study", "--format", "safetensors", "-o", "m.safetensors"]) == 0


def test_a_study_that_chose_nothing_asks_for_a_run(run, new, tmp_path, capsys):
    folder = study(tmp_path / "study", run, None)
    out = tmp_path / "out.csv"
    assert "no chosen run" in refused(capsys, folder, new, "-o", out)
    assert "has no run 'asl'" in refused(capsys, folder, new, "-o", out, "--run", "asl")
    assert main(["predict", str(folder), str(new), "-o", str(out), "--run", "plm_seed=0"]) == 0
    capsys.readouterr()
    (folder / "comparison.json").write_text("[")
    assert "cannot be read" in refused(capsys, folder, new, "-o", out)
    hostile = {"run": "../../run", "decision": "default"}
    record = {"format": "tailmask.compare/1", "comparison": {"chosen": hostile}}
    (folder / "comparison.json").write_text(json.dumps(record))
    assert "no valid choice" in refused(capsys, folder, new, "-o", out)
    (folder / "comparison.json").unlink()
    assert "finish the study" in refused(capsys, folder, new, "-o", out)


def test_help_says_what_is_the_default(capsys):
    assert main(["predict", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert text.startswith("Usage: tailmask predict [OPTIONS] RUN INPUTS")
    assert "[default: tuned if the run has tuned thresholds, else 0.5]" in text
