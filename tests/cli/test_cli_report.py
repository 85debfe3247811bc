"""`tailmask report`: what it writes and where, and what it refuses with one sentence."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from synthetic_runs import draw_logits, draw_targets, write_run
from tailmask.cli import main
from tailmask.runs.reader import Run

TARGETS = draw_targets(120, 4)


def write(folder: Path, method: str, seed: int = 0, **options) -> Run:
    logits = draw_logits(TARGETS, seed=seed + sum(map(ord, method)))
    options = {"fields": ["evaluation.rarest=[]", "evaluation.frequent=[]"]} | options
    return write_run(folder, method, seed, logits=logits, targets=TARGETS, **options)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs of a study below it."""
    folder = tmp_path_factory.mktemp("study")
    for method in ("bce", "plm"):
        for seed in range(2):
            write(folder / "runs" / f"{method}-{seed}", method, seed)
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fails(arguments: list[str], capsys: pytest.CaptureFixture[str], folder: Path) -> str:
    """The sentence that a command fails with, having changed no file."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(["report", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    return captured.err


def test_page_of_a_studys_folder(study: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(study), "--resamples", "100"]) == 0
    assert "<title>digits</title>" in (here / "report.html").read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    assert printed.endswith("report in report.html\n")
    assert "plm reaches F1" in printed


def test_runs_that_chose_a_rate_are_no_results(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bce", "plm:rate=0.1"):
        write(here / "parent/study/runs" / name, name)
        write(here / "parent/study/tuning" / name, name, seed=1_000_000)
    (here / "parent/study/study.json").write_text("{}")

    def seeds(*arguments: str) -> set[int]:
        assert main(["report", *arguments, "--format", "json", "--resamples", "100"]) == 0
        methods = json.loads(capsys.readouterr().out)["methods"]
        return {seed for method in methods for seed in method["seeds"]}

    assert seeds("parent/study") == seeds("parent") == {0}
    assert seeds("parent/study/tuning") == {1_000_000}
    monkeypatch.chdir(here / "parent/study")
    assert seeds(".") == {0}


def test_runs_by_name_title_and_baseline(study: Path, here: Path) -> None:
    runs = [str(study / "runs" / name) for name in ("bce-0", "plm-0")]
    options = ["--title", "Mine <&>", "--baseline", "plm", "--resamples", "100", "-o", "a/b.html"]
    assert main(["report", *runs, *options]) == 0
    page = (here / "a" / "b.html").read_text(encoding="utf-8")
    assert "<title>Mine &lt;&amp;&gt;</title>" in page
    assert "Gained most with bce" in page


def test_a_run_named_twice_counts_once(study: Path, here: Path) -> None:
    assert main(["report", str(study), str(study / "runs" / "plm-0"), "--resamples", "100"]) == 0


def test_other_forms_go_to_the_terminal(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(study), "--format", "csv", "--resamples", "100"]) == 0
    lines = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert {line["method"] for line in lines} == {"bce", "plm"}
    assert main(["report", str(study), "--format", "json", "--resamples", "100"]) == 0
    assert json.loads(capsys.readouterr().out)["methods"][1]["seeds"] == [0, 1]
    assert main(["report", str(study), "--format", "md", "--resamples", "100"]) == 0
    assert "# digits" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["csv", "json", "md", "html"])
def test_form_follows_the_files_name_and_is_replaced(study: Path, here: Path, ending: str) -> None:
    arguments = ["report", str(study), "--resamples", "100", "-o", f"out.{ending}"]
    assert main(arguments) == 0
    first = (here / f"out.{ending}").read_bytes()
    assert main(arguments) == 0  # our own report may be replaced
    assert (here / f"out.{ending}").read_bytes() == first
    assert [path.name for path in here.iterdir()] == [f"out.{ending}"]


def test_foreign_files_are_replaced_by_force_alone(
    study: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "report.html").write_text("<title>my thesis</title>")
    said = fails([str(study)], capsys, here)
    assert "report.html exists and is not a report of tailmask: name another file, or add --force" in said
    assert main(["report", str(study), "--force", "--resamples", "100"]) == 0
    assert "my thesis" not in (here / "report.html").read_text(encoding="utf-8")


def test_bad_folders(study: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no folder nowhere" in fails(["nowhere"], capsys, here)
    (here / "empty").mkdir()
    assert "no run.json in empty or below it" in fails(["empty"], capsys, here)
    (here / "file").touch()
    assert "file is a file: name the folder of a run" in fails(["file"], capsys, here)
    assert "is a folder: name a file" in fails([str(study), "-o", "empty"], capsys, here)
    assert "RUNS is missing" in fails([], capsys, here)


def test_incomplete_run(study: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "half", "plm", 5, complete=False)
    said = fails([str(study), "half"], capsys, here)
    assert "half is not complete: run its `tailmask train` command" in said


def test_run_of_another_study(study: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "other", "plm", 5, budget=0.5)
    said = fails([str(study), "other"], capsys, here)
    assert "they differ in budget (1.0 and 0.5)" in said


def test_unknown_names(study: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'plm'?" in fails([str(study), "--baseline", "plmm"], capsys, here)
    assert "--format takes one of" in fails([str(study), "--format", "pdf"], capsys, here)


@pytest.mark.parametrize("name", ["run.json", "metrics.json", "predictions.npz", "history.jsonl"])
def test_broken_files_are_named(
    name: str, study: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(here / "broken", "plm", 5)
    (run.folder / name).write_bytes(b"{\xff broken")
    if name == "metrics.json":  # its presence alone matters: all numbers come from the predictions
        assert main(["report", str(study), "broken", "--resamples", "100"]) == 0
    else:
        assert name in fails([str(study), "broken", "--resamples", "100"], capsys, here)
