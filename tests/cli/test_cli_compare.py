"""`tailmask compare`: from data to an answer, and every mistake told before anything is written."""

from __future__ import annotations

import json
import re

import pytest

from tailmask.cli import main
from tailmask.methods import RECOMMENDED
from tailmask.report.result_markdown import render_markdown


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_compare_on_the_embedded_digits(tmp_path, capsys, monkeypatch):
    command = ["compare", "--epochs", "1", "--seeds", "2", "--jobs", "2"]
    monkeypatch.setattr("sys.argv", ["tailmask", *command])
    assert main(command) == 0
    out, err = capsys.readouterr()
    folder = tmp_path / "tailmask-compare-digits"

    # What is said: progress on the error stream, then tables, the verdict, and last where the page is.
    assert re.findall(r"^(\d)/6 (\w+), seed (\d): validation F1", err, flags=re.MULTILINE)
    assert out.splitlines()[-2:] == [
        "report in tailmask-compare-digits/report.html",
        "next: tailmask predict tailmask-compare-digits new-images",
    ]
    assert "\x1b" not in out
    content = json.loads((folder / "comparison.json").read_text())
    chosen = content["comparison"]["chosen"]
    assert content["comparison"]["verdict"].startswith(f"Use `{chosen['method']}`")
    assert (folder / "runs" / chosen["run"] / "metrics.json").is_file()
    assert content["comparison"]["verdict"].split(".")[0] in out
    assert f"{RECOMMENDED} is the form of PLM that is recommended" in out.replace("\n", " ")

    # What is left: the page, the tables, and one run for each method and seed.
    assert "<html" in (folder / "report.html").read_text()
    assert (folder / "comparison.md").read_text() == render_markdown(content)
    assert content["command"] == "tailmask compare --epochs 1 --seeds 2 --jobs 2"
    assert content["seeds"] == [0, 1]
    assert content["machine"]["cores"] >= 1
    assert content["versions"]["torch"]
    assert sorted(run.name for run in (folder / "runs").iterdir()) == [
        f"{method}_seed={seed}" for method in ("bce", "plm_adapt=prevalence", "plm") for seed in (0, 1)
    ]
    (recorded,) = {run["threads"] for run in content["runs"]}
    assert recorded >= 1
    rows = {(row["method"], row["decision"]) for row in content["comparison"]["rows"]}
    assert ("bce", "tuned thresholds") in rows
    assert ("plm", "prior shift") in rows

    # The same study is read; another one is refused and nothing of it is touched.
    before = {path: path.stat().st_mtime_ns for path in (folder / "runs").rglob("*") if path.is_file()}
    assert main([*command, "--tuned-thresholds"]) == 0
    assert "6 of 6 runs" in capsys.readouterr().err
    rows = json.loads((folder / "comparison.json").read_text())["comparison"]["rows"]
    assert {row["decision"] for row in rows} == {"default", "tuned thresholds"}
    assert main(["compare", "--epochs", "2", "--seeds", "2"]) == 2
    assert "holds another study, which differs in epochs (1 there, 2 asked for)" in capsys.readouterr().err
    assert before == {
        path: path.stat().st_mtime_ns for path in (folder / "runs").rglob("*") if path.is_file()
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["digtis"], "did you mean 'digits'"),
        (["--methods", "bce", "focl"], "did you mean 'focal'"),
        (["--methods", "bce,plm"], "methods are separated by spaces, as in --methods bce plm\n"),
        (["--methods", "bce,", "plm"], "methods are separated by spaces, as in --methods bce\n"),
        (
            ["--methods", "bce,plm:rate=0.05,num_bins=20+asl, focal"],
            "as in --methods bce plm:rate=0.05,num_bins=20+asl focal\n",
        ),
        (["--methods", "plm:rate=0.05,num_bin=20"], "did you mean 'num_bins'"),
        (["--methods", "plm+ldam"], "plm masks single labels"),
        (["--seeds", "0"], "--seeds must be 1 or more, got 0"),
        (["--jobs", "0"], "--jobs must be 1 or more, got 0"),
        (["--seeds", "many"], "--seeds takes a whole number"),
        (["--baseline", "bcee"], "did you mean 'bce'"),
        (["--tune", "gamma"], "--tune takes one of"),
        (["--decide", "precision=2"], "precision takes a number above 0 and up to 1"),
        (
            ["--tune", "rate", "--list"],
            "--tune needs finished runs, but --list only prints",
        ),
        (["--tune", "rate", "--methods", "bce"], "needs a method with plm"),
        (["--epochs", "0"], "epochs must be 1 or more"),
        (["--budget", "-1"], "the budget must be"),
        (["--epochs", "3", "--budget", "0.5"], "either epochs or a budget"),
        (["--set", "optimizer.lrr=1"], "did you mean 'optimizer.lr'"),
        (["--recipe", "digit"], "did you mean 'digits'"),
        (["--sedes", "3"], "Did you mean --seeds"),
    ],
)
def test_mistakes_cost_no_time_and_leave_nothing(arguments, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "tailmask.studies.worker_process.COMMAND", ("false",)
    )  # no worker is needed to see them
    assert main(["compare", *arguments]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_folders_of_others_are_refused(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for out, sentence in (("mine", "holds files, but no study"), ("file", "is a file")):
        assert main(["compare", "--out", out]) == 2
        assert sentence in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]
    (tmp_path / "broken").mkdir()
    for content in ("{", "[]", '{"format": "other"}'):
        (tmp_path / "broken" / "study.json").write_text(content)
        assert main(["compare", "--out", "broken"]) == 2
        assert "study.json" in capsys.readouterr().err


def test_a_missing_extra_is_named(capsys, monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "pytorch_lightning", None)
    assert main(["compare"]) == 2
    assert "pip install 'tailmask[cli]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["compare", "train"])
def test_what_is_to_know_of_the_data_is_said_before_training(command, tmp_path, capsys):
    rows = [f"{row % 7},{'a' if row % 3 else 'b;a' if row % 2 else ''}" for row in range(90)]
    (tmp_path / "mine.csv").write_text("\n".join(["number,tags", *rows]) + "\n")
    options = {
        "compare": ["--methods", "bce", "plm", "--seeds", "1", "--jobs", "1"],
        "train": ["--out", "run"],
    }
    arguments = ["mine.csv", "--label-column", "tags", "--separator", ";", "--epochs", "1", *options[command]]
    assert main(["data", *arguments[:5], "--format", "json"]) == 0
    expected = json.loads(capsys.readouterr().out)["notes"]
    assert any("are unknown" in note for note in expected)
    assert main([command, *arguments]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    said = [line.removeprefix("note: ") for line in lines]
    assert [note for note in said if note in expected] == expected
    folder = "run" if command == "train" else "tailmask-compare-mine/runs/bce_seed=0"
    assert json.loads((tmp_path / folder / "run.json").read_text())["notes"][: len(expected)] == expected
