"""How `reproduce` makes a result of finished runs, and when it refuses; nothing is trained."""

from __future__ import annotations

import dataclasses
import json
import statistics

import numpy as np
import pytest
from reproducing import DIGITS, REQUEST, add_runs, cells, summary

from made_up_runs import write_run
from tailmask._util.messages import UserError
from tailmask.data import load
from tailmask.paper import Request, plan_reproduction
from tailmask.paper.published_numbers import load_paper, paper_rows
from tailmask.paper.request import Arm
from tailmask.paper.runs_of_result import RunRecords
from tailmask.report.result_markdown import render_markdown, rows_of
from tailmask.training.engine import run_description


def test_cells_hold_the_papers_number_and_the_mean_of_the_runs(make, tmp_path):
    runs = add_runs(tmp_path, "table1", seeds=3, methods=("bce", "plm"))
    result = make("table1").result
    for method in ("bce", "plm"):
        for metric, paper, cell in zip(
            load_paper()["table1"]["columns"],
            paper_rows("table1")[method],
            cells(result, method),
            strict=True,
        ):
            values = [100 * summary(runs[100.0, method, seed])[metric] for seed in range(3)]
            assert cell["paper"] == paper
            assert cell["mean"] == pytest.approx(statistics.fmean(values))
            assert cell["std"] == pytest.approx(np.std(values, ddof=1))
            assert cell["n"] == 3
    for cell in cells(result, "focal"):
        assert cell["mean"] is None
        assert cell["n"] == 0
    assert result["seeds"] == [0, 1, 2]
    assert len(result["runs"]) == 6


def test_rows_may_have_more_seeds_than_were_asked_for(make, tmp_path):
    add_runs(tmp_path, "table1", seeds=2, methods=("plm",))
    add_runs(tmp_path, "table1", seeds=1, methods=("bce",))
    result = make("table1", seeds=1).result
    assert {cell["n"] for cell in cells(result, "plm")} == {2}
    assert {cell["n"] for cell in cells(result, "bce")} == {1}
    assert all(cell["std"] is None for cell in cells(result, "bce"))


def test_budgets_are_never_mixed(make, tmp_path):
    add_runs(tmp_path, "table1", methods=("bce",))
    other = dataclasses.replace(REQUEST, budget=1.0)
    folders = add_runs(tmp_path, "table1", request=other, methods=("bce",))
    # Even where somebody has moved a run of another budget to the right place.
    right = tmp_path / "runs" / plan_reproduction("table1", REQUEST)[0].setting.name
    next(iter(folders.values())).rename(right / "bce_seed=5")
    result = make("table1").result
    assert [run["seed"] for run in result["runs"]] == [0]
    assert result["title"].endswith("at budget 0.5")


def test_a_run_without_a_field_that_came_later_counts(make, tmp_path):
    (folder,) = add_runs(tmp_path, "table1", methods=("bce",)).values()
    config = json.loads((folder / "run.json").read_text())
    del config["recipe"]["model"]["freeze"]  # its default determines nothing
    (folder / "run.json").write_text(json.dumps(config))
    assert [run["method"] for run in make("table1").result["runs"]] == ["bce"]


def test_runs_on_users_images_are_found(tmp_path):
    """Their recipe is another than that of tables, which is known once the images are read."""
    rng = np.random.default_rng(0)
    images, labels = rng.integers(256, size=(60, 8, 8, 3), dtype=np.uint8), rng.integers(2, size=(60, 3))
    np.savez(tmp_path / "mine.npz", X=images, Y=labels)
    request = Request(data=str(tmp_path / "mine.npz"), methods=("bce",))
    (run,) = plan_reproduction("table1", request, runs=tmp_path / "runs")
    write_run(run, classes="abc", train_positives=[30, 20, 10])
    path = run.folder / "run.json"
    record = json.loads(path.read_text()) | run_description(run.config, load(run.setting.data), world_size=1)
    path.write_text(json.dumps(record))
    arm = Arm(run.setting, "bce")
    assert [found.folder for found in RunRecords(tmp_path / "runs").find(arm)] == [run.folder]


def test_a_result_of_another_setting_is_not_overwritten(make, tmp_path):
    add_runs(tmp_path, "table1", methods=("bce",))
    make("table1")
    before = (tmp_path / "out" / "table1.json").read_bytes()
    with pytest.raises(UserError, match=r"differs in budget \(0.5 there, 0.25 asked for\)"):
        make("table1", dataclasses.replace(REQUEST, budget=0.25))
    with pytest.raises(UserError, match=r"differs in precision \(none there, bf16 asked for\)"):
        make("table1", dataclasses.replace(REQUEST, precision="bf16"))
    assert (tmp_path / "out" / "table1.json").read_bytes() == before
    (tmp_path / "out" / "table1.json").write_text("[]")
    with pytest.raises(UserError, match="is not a result of tailmask"):
        make("table1")


def test_nothing_is_written_where_no_run_is_complete(make, tmp_path):
    assert make("table1").paths == ()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("item", ["table1", "table3", "figure1", "figure2", "figure3"])
def test_markdown_is_what_the_json_renders_to(make, tmp_path, item):
    single = item in ("table3", "figure1", "figure3")
    add_runs(tmp_path, item, single_label=single, methods=("bce", "plm"))
    made = make(item, command="tailmask reproduce it")
    path = tmp_path / "out" / f"{item}.json"
    content = json.loads(path.read_text())
    assert path.with_suffix(".md").read_text() == render_markdown(content)
    text = path.with_suffix(".md").read_text()
    for needed in ("tailmask reproduce it", "Seeds: 0", "budget 0.5", "cores", "torch", "Commit"):
        assert needed in text
    assert set(made.paths) == set((tmp_path / "out").iterdir())
    assert path.with_suffix(".svg").exists() == item.startswith("figure") == (made.figure is not None)


def test_the_page_names_the_precision_where_it_is_not_the_usual_one(make, tmp_path):
    for request in (REQUEST, dataclasses.replace(REQUEST, precision="bf16")):
        add_runs(tmp_path, "table1", request=request, methods=("bce",))
    assert "precision bf16" not in render_markdown(make("table1").result)
    (tmp_path / "out" / "table1.json").unlink()
    assert "`precision bf16`" in render_markdown(make("table1", request).result)


def test_the_page_names_the_commits_that_trained_where_another_made_the_tables(make, tmp_path):
    add_runs(tmp_path, "table1", methods=("bce", "plm"))
    content = make("table1").result | {"commit": "a" * 40}
    trained = ["a" * 40, "a" * 40]
    assert "; runs:" not in _commit_line(content, trained)
    trained[1] = "b" * 40
    assert _commit_line(content, trained).endswith(f"{'a' * 40}; runs: 1 by aaaaaaaaaa, 1 by bbbbbbbbbb")
    assert _commit_line(content, [None, None]).endswith("; runs: 2 by an unknown one")


def _commit_line(content, trained):
    runs = [run | {"commit": commit} for run, commit in zip(content["runs"], trained, strict=True)]
    (line,) = (x for x in render_markdown(content | {"runs": runs}).splitlines() if x.startswith("- Commit"))
    return line


def test_what_is_computed_from_other_cells_leaves_the_number_of_runs_to_the_row():
    cells = [{"paper": None, "mean": mean, "std": None, "n": n} for mean, n in ((1.0, 3), (2.5, 3), (1.5, 0))]
    table = {"label": "Class", "columns": ["bce", "plm", "Gain"], "digits": 1}
    rows = rows_of(table | {"rows": [{"label": "cat", "cells": cells}]})
    assert rows == [["Class", "n", "bce", "plm", "Gain"], ["cat", "3", "1.0", "2.5", "1.5"]]


def test_missing_data_of_the_paper_hint_at_other_data(make, tmp_path, monkeypatch):
    from tailmask.data import DataOptions

    request = Request(options=DataOptions(data_dir=tmp_path, download=False))
    with pytest.raises(UserError, match=r"mnist.*; or make table7 .* --data digits"):
        make("table7", request)


def test_names_cannot_break_out_of_the_tables(make, tmp_path):
    hostile = ["a|b", "<script>alert(1)</script>", "`c`", "d\ne", *DIGITS[4:]]
    add_runs(tmp_path, "figure2", classes=hostile)
    make("figure2")
    text = (tmp_path / "out" / "figure2.md").read_text()
    assert "<script>" not in text.replace("\\<script>", "")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert "<script" not in (tmp_path / "out" / "figure2.svg").read_text()
