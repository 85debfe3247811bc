"""Results outlive the runs that they rest on, which take more space and stay on the machine."""

from __future__ import annotations

import dataclasses
import json
import shutil
import statistics

import pytest
from reproducing import REQUEST, IdlePool, add_runs, cells, summary

from tailmask._util.messages import UserError
from tailmask.data.facts import DataFacts
from tailmask.paper import plan_reproduction
from tailmask.paper import reproduction as module
from tailmask.paper.runs_of_result import RunRecords


def test_a_table_keeps_what_it_has_on_record(make, tmp_path):
    runs = add_runs(tmp_path, "table1", seeds=2, methods=("bce", "plm"))
    before = make("table1", command="tailmask reproduce the first").result
    remove(runs)
    other = dataclasses.replace(REQUEST, methods=("focal", "bce"))
    add_runs(tmp_path, "table1", request=other, methods=("focal",))
    result = make("table1", other, command="tailmask reproduce the second").result
    for method in ("bce", "plm"):
        assert cells(result, method) == cells(before, method)
    assert {cell["n"] for cell in cells(result, "focal")} == {1}
    assert [(run["name"], run["seed"]) for run in result["runs"]] == [
        *(("bce", 0), ("bce", 1), ("focal", 0), ("plm", 0), ("plm", 1))
    ]
    text = (tmp_path / "out" / "table1.md").read_text()
    assert "- Of these, kept from the result of `tailmask reproduce the first`: 4\n" in text
    assert "Command: `tailmask reproduce the second`" in text
    # And so on: where they come from is not forgotten by the next result.
    assert make("table1", other, command="tailmask reproduce the third").result["runs"] == result["runs"]


def test_seeds_are_added_to_those_on_record(make, tmp_path):
    runs = add_runs(tmp_path, "table1", seeds=2, methods=("bce",))
    values = [100 * summary(folder)["f1"] for folder in runs.values()]
    hidden = tmp_path / "hidden"
    runs[100.0, "bce", 1].rename(hidden)
    make("table1")
    shutil.rmtree(runs[100.0, "bce", 0])
    hidden.rename(runs[100.0, "bce", 1])
    (cell,) = (cell for cell in cells(make("table1").result, "bce") if cell["paper"] == 80.35)
    assert (cell["mean"], cell["n"]) == (pytest.approx(statistics.fmean(values)), 2)


def test_a_row_that_is_not_the_papers_stays(make, tmp_path):
    asked = dataclasses.replace(REQUEST, methods=("plm:adapt=prevalence", "plm:rate=0.005"))
    add_runs(tmp_path, "table1", request=asked)
    before = make("table1", asked).result
    result = make("table1").result
    for method in asked.names:
        assert cells(result, method) == cells(before, method)
    assert result["notes"] == before["notes"] != []  # about λ under a budget


def test_also_where_the_paper_has_its_method_in_another_setting(make, tmp_path):
    """At other ρ the paper's row bce+cb uses it."""
    asked = dataclasses.replace(REQUEST, methods=("bce+cb:beta=0.99",), imbalances=(100.0,))
    add_runs(tmp_path, "table4", request=asked, single_label=True)
    before = make("table4", asked).result
    result = make("table4", dataclasses.replace(asked, methods=("bce",))).result
    assert cells(result, "bce+cb:beta=0.99") == cells(before, "bce+cb:beta=0.99")


def test_what_another_process_adds_meanwhile_stays(make, tmp_path, monkeypatch):
    add_runs(tmp_path, "table1", methods=("bce",))
    add_runs(tmp_path / "other", "table1", methods=("plm",))
    out = {"out": tmp_path / "out", "runs": tmp_path / "other" / "runs"}

    class Pool(IdlePool):
        def make(self, *_):
            monkeypatch.setattr(module, "Pool", IdlePool)
            module.reproduce("table1", REQUEST, **out)
            return []

    monkeypatch.setattr(module, "Pool", Pool)
    assert [run["name"] for run in make("table1").result["runs"]] == ["bce", "plm"]


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("data", 1, r"data \(1 there, .*multimnist"),
        ("method", "bce+cb", r"method \(bce\+cb there, bce asked"),
        ("recipe", {}, r"recipe\.evaluation"),
        ("precision", "bf16", r"precision \(bf16 there, 32 asked"),
    ],
)
def test_runs_of_another_recipe_are_not_mixed_in(make, tmp_path, field, value, named):
    """As those of an earlier version, or of a file that has changed."""
    runs = add_runs(tmp_path, "table1", methods=("bce",))
    make("table1")
    path = tmp_path / "out" / "table1.json"
    change_records(path, lambda record: record["determines"].update({field: value}))
    remove(runs)
    add_runs(tmp_path, "table1", methods=("bce+undersample",))
    before = path.read_bytes()
    with pytest.raises(UserError, match=f"with another recipe or other data, which differ in {named}"):
        make("table1")
    assert path.read_bytes() == before


def test_what_will_be_refused_is_refused_before_anything_is_trained(make, tmp_path, monkeypatch):
    runs = add_runs(tmp_path, "table1", methods=("bce", "plm"))
    make("table1")
    change_records(tmp_path / "out" / "table1.json", lambda record: record["determines"].update(seed=3))
    shutil.rmtree(runs[100.0, "plm", 0])
    path = runs[100.0, "bce", 0] / "run.json"
    config = json.loads(path.read_text())
    config["determines"]["precision"] = "bf16"
    path.write_text(json.dumps(config))
    monkeypatch.setattr(module, "Pool", lambda *_, **__: pytest.fail("it trains"))
    for methods in (("bce", "focal"), ("focal", "plm")):
        with pytest.raises(UserError, match="another recipe"):
            make("table1", dataclasses.replace(REQUEST, methods=methods))


@pytest.mark.parametrize("is_on_disk", [True, False])
def test_runs_on_other_data_under_the_same_name_do_not_count(tmp_path, is_on_disk):
    runs = add_runs(tmp_path, "table1", methods=("bce",))
    (planned,) = plan_reproduction(
        "table1", dataclasses.replace(REQUEST, methods=("plm",)), runs=tmp_path / "runs"
    )
    config = json.loads((runs[100.0, "bce", 0] / "run.json").read_text())
    source = config["determines"]["data"]
    kept = {**config, "setting": planned.setting.name, "measures": {}, "epochs": 3}
    if not is_on_disk:
        remove(runs)
    records = RunRecords(tmp_path / "runs", [] if is_on_disk else [kept])
    records.check_data(planned.setting, source)
    with pytest.raises(
        UserError, match=r"bce \(seed 0\) was trained on other data, .* classes .*--runs and --out"
    ):
        records.check_data(planned.setting, source | {"classes": 7})


def test_and_nothing_is_trained_beside_them(tmp_path, monkeypatch):
    class Pool(IdlePool):
        def check(self, runs):
            return {run.setting.asked: DataFacts({"name": "other"}, (), (), False, False) for run in runs}

        def make(self, *_):
            pytest.fail("it trains")

    monkeypatch.setattr(module, "Pool", Pool)
    add_runs(tmp_path, "table1", methods=("bce",))
    with pytest.raises(UserError, match=r"bce \(seed 0\) was trained on other data, which differ in name"):
        module.reproduce("table1", REQUEST, out=tmp_path / "out", runs=tmp_path / "runs")


@pytest.mark.parametrize("seeds", [1, 2])  # with two it would be trained again, which fails here
def test_a_figure_is_not_overwritten_without_them(make, tmp_path, seeds):
    runs = add_runs(tmp_path, "figure2", seeds=2)
    make("figure2")
    before = (tmp_path / "out" / "figure2.json").read_bytes()
    shutil.rmtree(runs[100.0, "plm", 1])
    with pytest.raises(UserError, match=r"runs that are not in .*: plm \(seed 1\); .* --runs"):
        make("figure2", seeds=seeds)
    assert (tmp_path / "out" / "figure2.json").read_bytes() == before


def test_a_run_of_another_recipe_in_its_place_is_not_it(make, tmp_path):
    runs = add_runs(tmp_path, "figure2", seeds=2)
    make("figure2")
    path = runs[100.0, "plm", 1] / "run.json"
    config = json.loads(path.read_text())
    config["determines"]["recipe"]["optimizer"]["lr"] = 0.5
    path.write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"runs that are not in .*: plm \(seed 1\)"):
        make("figure2")


@pytest.mark.parametrize("methods", [("bce",), ("bce", "plm")])  # which would be trained, and fails
def test_nor_is_a_table_without_measures_on_record(make, tmp_path, methods):
    runs = add_runs(tmp_path, "table1", methods=("bce", "plm"))
    make("table1")
    path = tmp_path / "out" / "table1.json"
    change_records(path, lambda record: record.pop("measures"))
    make("table1")  # all runs are there
    change_records(path, lambda record: record.pop("measures"))
    shutil.rmtree(runs[100.0, "plm", 0])
    with pytest.raises(UserError, match=r"runs that are not in .*: plm \(seed 0\)"):
        make("table1", dataclasses.replace(REQUEST, methods=methods))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("seed", [1]), ("seed", "0"), ("setting", 1), ("measures", [1]), ("measures", {"f1": "x"})),
        *(("determines", None), ("result", 3), ("result", {}), ("seconds", None)),
    ],
)
def test_a_damaged_record_is_told_of(make, tmp_path, field, value):
    add_runs(tmp_path, "table1", methods=("bce",))
    make("table1")
    change_records(tmp_path / "out" / "table1.json", lambda record: record.update({field: value}))
    with pytest.raises(UserError, match="is not a result of tailmask"):
        make("table1")


def remove(runs):
    for folder in runs.values():
        shutil.rmtree(folder)


def change_records(path, change):
    """Change what a result has on record of each run."""
    content = json.loads(path.read_text())
    for record in content["runs"]:
        change(record)
    path.write_text(json.dumps(content))
