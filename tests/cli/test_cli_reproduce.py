"""`tailmask reproduce`: end to end on the embedded digits, the list for a job array, and mistakes."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tailmask.cli import main
from tailmask.report.result_markdown import render_markdown
from tailmask.runs.lock import locked

FAKE_WORKER = Path(__file__).parents[1] / "studies" / "fake_worker.py"


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_table_is_filled_row_by_row(tmp_path, capsys, monkeypatch):
    rows = ["reproduce", "table6", "--data", "digits", "--budget", "0.025", "--jobs", "1", "--methods"]
    command = [*rows, "plm:initial_ratio=mean", "plm:initial_ratio=class"]
    monkeypatch.setattr("sys.argv", ["tailmask", *command])

    # One of the runs cannot be made: it is named in the end and gives an exit code, the others are there.
    with locked(tmp_path / "runs" / "digits_budget=0.025" / "plm_initial_ratio=class_seed=0"):
        assert main(command) == 2
    out, err = capsys.readouterr()
    assert "plm:initial_ratio=mean, seed 0: validation F1" in err
    assert "1 run failed: plm:initial_ratio=class, seed 0: another process" in err
    assert out.splitlines()[-1] == "result in results/table6.json, results/table6.md"
    result = json.loads((tmp_path / "results" / "table6.json").read_text())
    measured = {row["label"]: row["cells"][0]["n"] for row in result["tables"][0]["rows"]}
    assert measured == {"min r": 0, "max r": 0, "mean r": 1, "r, the data's": 0}
    assert result["command"] == shlex.join(["tailmask", *command])
    assert result["budget"] == 0.025

    # The next call makes what is missing, and the row of the first stays without being asked for.
    assert main([*rows, "plm:initial_ratio=class"]) == 0
    assert "1/1 plm:initial_ratio=class, seed 0" in capsys.readouterr().err
    result = json.loads((tmp_path / "results" / "table6.json").read_text())
    measured = {row["label"]: row["cells"][0]["n"] for row in result["tables"][0]["rows"]}
    assert measured == {"min r": 0, "max r": 0, "mean r": 1, "r, the data's": 1}
    assert (tmp_path / "results" / "table6.md").read_text() == render_markdown(result)


def test_the_list_is_one_command_a_run(capsys, tmp_path):
    assert main(["reproduce", "table1", "--list", "--seeds", "2", "--budget", "0.2", "--data-dir", "/x"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 16
    assert all(
        line.startswith("tailmask train multimnist --data-dir /x --budget 0.2 --method ") for line in lines
    )
    assert len({shlex.split(line)[-1] for line in lines}) == 16
    assert main(["reproduce", "figure5", "--list"]) == 0
    assert capsys.readouterr().out == ""
    assert not list(tmp_path.iterdir())


def test_the_toy_example_needs_no_training(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tailmask.studies.worker_process.COMMAND", ("false",))
    assert main(["reproduce", "figure6", "--out", "here"]) == 0
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == [
        "figure6.json",
        "figure6.md",
        "figure6.svg",
    ]
    assert "<svg" in (tmp_path / "here" / "figure6.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tabel1"], "did you mean 'table1'"),
        (["table9"], "the paper has no 'table9'"),
        (["table1", "--seeds", "0"], "--seeds must be 1 or more"),
        (["table1", "--jobs", "-1"], "--jobs must be 1 or more"),
        (["table1", "--methods", "focl"], "did you mean 'focal'"),
        (["table1", "--data", "digtis"], "did you mean 'digits'"),
        (["figure2", "--methods", "bce"], "leave --methods out"),
        (["table3", "--imbalance", "7"], "no ρ = 7"),
        (["table3", "--rho", "20"], "with --imbalance, not --rho"),
        (["table1", "--budget", "0"], "the budget must be"),
        (["table1", "--list", "--set", "model.nmae=mlp"], "did you mean 'model.name'"),
    ],
)
def test_mistakes_cost_no_time_and_leave_nothing(arguments, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tailmask.studies.worker_process.COMMAND", ("false",))
    assert main(["reproduce", *arguments]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_data_that_cannot_be_had_are_named_with_a_way_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tailmask.studies.worker_process.COMMAND", (sys.executable, str(FAKE_WORKER)))
    assert main(["reproduce", "figure4", "--data-dir", "missing", "--jobs", "1"]) == 2
    expected = (
        "tailmask: there is no data set called 'coco'; or make figure4 with other data, as in --data digits\n"
    )
    assert capsys.readouterr().err == expected
    assert not list(tmp_path.iterdir())
