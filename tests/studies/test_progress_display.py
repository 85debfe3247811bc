"""What a study shows while it goes on, in a terminal and elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tailmask.report.result_terminal import show_result
from tailmask.runs import Setting
from tailmask.studies.planned_runs import plan_runs
from tailmask.studies.progress_display import Display


@pytest.fixture
def runs(tmp_path):
    planned = plan_runs(Setting("digits").resolve(), ["bce", "plm"], [0], folder=tmp_path)
    for run in planned:
        run.folder.mkdir()
        (run.folder / "run.json").write_text("{}")
        metrics = {"validation": {"summary": {"f1": 0.25}}, "test": {"summary": {"f1": 0.75}}}
        (run.folder / "metrics.json").write_text(json.dumps(metrics))
    return planned


def go_through(display, runs):
    display.prepare()
    display.begin(runs, complete=0)
    display.note(None, "no sample is a nine")
    for run in runs:
        display.step(run, epochs=0, total=4, loss=None)
        display.step(run, epochs=1.5, total=4, loss=0.25)
        display.note(run, "some classes have no negatives")
    display.finished(runs[0], sentence=None)
    display.finished(runs[1], sentence="the loss became NaN")
    display.end()
    display.analysed(1, 2)
    display.analysed(2, 2)


def test_without_a_terminal_there_is_a_line_for_each_run(runs, capsys):
    go_through(Display("a study"), runs)
    out, err = capsys.readouterr()
    assert out == ""
    lines = [re.sub(r"\d+ s$", "# s", line) for line in err.splitlines()]
    assert lines == [
        "note: no sample is a nine",
        "note: bce, seed 0: some classes have no negatives",
        "1/2 bce, seed 0: validation F1 25.0 at threshold 0.5, # s",
        "2/2 plm, seed 0: failed: the loss became NaN",
    ]


def test_a_run_that_never_began_took_no_time(runs, capsys):
    display = Display("a study")
    display.begin(runs, complete=0)
    display.finished(runs[0], sentence=None)
    assert capsys.readouterr().err.endswith(", 0 s\n")


def test_names_cannot_move_the_cursor(runs, capsys):
    display = Display("a study")
    display.begin(runs, complete=0)
    display.note(None, "no sample\nis a \x1b]0;nine\x07")
    display.finished(runs[0], sentence="no class \x1b[2J")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "note: no sample is a \N{REPLACEMENT CHARACTER}]0;nine\N{REPLACEMENT CHARACTER}"
    assert lines[1].endswith("failed: no class \N{REPLACEMENT CHARACTER}[2J")


def test_results_cannot_move_the_cursor(capsys):
    table = {"caption": "of \x1b[2J", "label": "method", "columns": ["f1"], "rows": [], "digits": 1}
    show_result({"title": "a \x1b]0;title", "tables": [table], "notes": ["no \x1b[2J sample"]})
    out = capsys.readouterr().out
    assert out.count("\N{REPLACEMENT CHARACTER}") == 3
    assert "\x1b" not in out


def test_in_a_terminal_there_are_bars_and_the_lines_stay(runs, capsys, monkeypatch):
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "110"}.items():
        monkeypatch.setenv(name, value)
    go_through(Display("a study"), runs)
    screen = capsys.readouterr().err
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen)
    assert "epoch 1/4, loss 0.2500" in text
    assert "1 of 2 runs" in text
    assert "1/2 bce, seed 0: validation F1 25.0" in text
    assert "comparing: 1 of 2 runs" in text
    hidden, shown = (screen.rfind(f"\x1b[?25{end}") for end in "lh")
    assert 0 <= hidden < shown, "the cursor is back"


def test_runs_of_several_settings_are_told_apart(runs, capsys):
    other = plan_runs(Setting("digits", budget=0.5).resolve(), ["bce"], [0], folder=Path("x"))
    display = Display("a study")
    display.begin([*runs, *other], complete=1)
    display.finished(other[0], sentence="no")
    assert capsys.readouterr().err.splitlines() == [
        "1 of 3 runs are already complete",
        "2/3 digits_budget=0.5: bce, seed 0: failed: no",
    ]
