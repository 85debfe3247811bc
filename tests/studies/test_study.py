"""`compare` from Python, on made-up runs in place of trained ones: what is planned, chosen, kept and told."""

from __future__ import annotations

import json
import re
import shutil
from importlib import resources
from pathlib import Path

import pytest
from fake_pool import CLASSES

from tailmask._util.messages import UserError
from tailmask._util.result_formats import STUDY
from tailmask.data import DataOptions
from tailmask.runs import Setting
from tailmask.runs.lock import locked
from tailmask.studies import compare, plan_comparison
from tailmask.studies.progress_display import Display


def test_the_study_holds_tables_figures_and_files(pool, tmp_path):
    study = compare(methods=["bce", "plm"], seeds=3, out=tmp_path / "study", command="by hand")
    assert [(run.config["name"], run.config["seed"]) for run in study.runs] == [
        (method, seed) for seed in range(3) for method in ("bce", "plm")
    ]
    assert study.comparison.baseline == "bce"
    assert "plm reaches" in study.comparison.verdict, "the made-up runs have no validation outputs"
    assert study.next_command is None
    tables = study.tables()
    assert {row["method"] for row in tables["rows"]} == {"bce", "plm"}
    (f1,) = (row for row in tables["differences"] if (row["metric"], row["method"]) == ("f1", "plm"))
    assert f1["low"] < f1["mean"] < f1["high"]
    assert f1["n"] == 3
    assert len(tables["class_gains"]) == len(CLASSES)
    figures = study.figures()
    curves = ["precision-recall", "calibration", "outputs", "ratios", "divergences", "losses"]
    assert list(figures) == ["differences", "by-class", *curves]
    assert all(type(figure).__name__ == "Figure" for figure in figures.values())
    assert study.report_path.is_file()
    content = json.loads((tmp_path / "study" / "comparison.json").read_text())
    assert content["seeds"] == [0, 1, 2]
    assert content["command"] == "by hand"
    assert content["budget"] == 1.0


def test_a_page_that_cannot_be_written_does_not_cost_the_numbers(pool, tmp_path):
    study = compare(methods=["bce"], seeds=1, out=tmp_path / "study")
    study.report_path.unlink()
    study.report_path.mkdir()
    with pytest.raises(IsADirectoryError):
        compare(methods=["bce", "plm"], seeds=1, out=tmp_path / "study")
    assert json.loads((tmp_path / "study" / "comparison.json").read_text())["comparison"]["rows"]
    assert "plm" in (tmp_path / "study" / "comparison.md").read_text()


def test_a_study_can_grow(pool, tmp_path):
    compare(methods=["bce", "plm"], seeds=1, out=tmp_path / "study")
    study = compare(methods=["bce", "plm", "asl"], seeds=2, out=tmp_path / "study")
    assert len(pool.made) == 6, "the first two runs are not made again"
    assert len(study.runs) == 6


class Notes:
    """A listener that keeps all calls."""

    def __init__(self):
        self.texts = []

    def note(self, run, text):
        self.texts.append(text)

    def prepare(self):
        pass

    def analysed(self, done, total):
        pass


def test_a_smaller_question_does_not_shrink_the_study(pool, tmp_path):
    listener, folder = Notes(), tmp_path / "study"
    compare(methods=["bce", "plm", "asl"], seeds=2, out=folder, listener=listener)
    assert listener.texts == []
    study = compare(methods=["asl", "plm"], seeds=1, out=folder, listener=listener)
    assert len(pool.made) == 6
    assert listener.texts == [
        "4 more runs of this study are in the folder and compared too: asl (seed 1), bce (seed 0), "
        "bce (seed 1), plm (seed 1)"
    ]
    assert [method.name for method in study.comparison.methods] == ["asl", "plm", "bce"], "asked for first"
    assert {method.seeds for method in study.comparison.methods} == {(0, 1)}
    content = json.loads((folder / "comparison.json").read_text())
    assert len(content["runs"]) == 6
    assert content["seeds"] == [0, 1]


def test_the_same_file_from_elsewhere_is_the_same_study(pool, tmp_path, monkeypatch):
    home = tmp_path / "secret"
    home.mkdir()
    (home / "a.csv").touch()
    (home / "test.csv").touch()
    monkeypatch.chdir(tmp_path)

    def study(data, test_file, methods):
        options = DataOptions(labels="tag_*", test_file=test_file)
        return compare(data, methods, seeds=1, out=tmp_path / "study", options=options)

    study("secret/a.csv", Path("secret/test.csv"), ["bce"])
    record = json.loads((tmp_path / "study" / "study.json").read_text())
    assert "secret" not in str(record)
    # As it was written before.
    record["setting"] |= {"data": "secret/a.csv"}
    record["setting"]["options"] |= {"test_file": "secret/test.csv"}
    (tmp_path / "study" / "study.json").write_text(json.dumps(record))
    monkeypatch.chdir(home)
    assert len(study(str(home / "a.csv"), home / "test.csv", ["bce", "plm"]).runs) == 2
    assert len(pool.made) == 2
    for name in ("comparison.json", "comparison.md"):
        text = (tmp_path / "study" / name).read_text()
        assert "secret" not in text
        assert "a.csv" in text
        assert "test.csv" in text
    (home / "b.csv").touch()
    with pytest.raises(UserError, match=r"another study, which differs in data \(a\.csv there, b\.csv asked"):
        study(str(home / "b.csv"), home / "test.csv", ["bce"])


@pytest.mark.parametrize(
    "setting", [None, 7, [], {}, {"data": 7, "options": {}, "recipe": None}, {"data": "a", "options": []}]
)
def test_a_study_without_a_valid_setting_is_refused(pool, tmp_path, setting):
    (tmp_path / "study.json").write_text(json.dumps({"format": STUDY, "setting": setting}))
    with pytest.raises(UserError, match=r"study\.json has no valid setting: was it written by tailmask\?"):
        compare(out=tmp_path)
    assert pool.made == []


def test_what_is_no_run_of_the_study_is_left_out(pool, tmp_path):
    listener, folder = Notes(), tmp_path / "study"
    compare(methods=["bce", "plm", "asl"], seeds=1, out=folder)
    (folder / "runs" / "asl_seed=0" / "metrics.json").unlink()
    shutil.copytree(folder / "runs" / "plm_seed=0", folder / "runs" / "plm_seed=0_seed=0")
    for name, change in (("hill", {"train_counts": []}), ("db", {"seed": "x"})):
        other = folder / "runs" / f"{name}_seed=0"
        shutil.copytree(folder / "runs" / "bce_seed=0", other)
        record = json.loads((other / "run.json").read_text()) | {"name": name, "method": name} | change
        (other / "run.json").write_text(json.dumps(record))
    study = compare(methods=["bce", "plm"], seeds=1, out=folder, listener=listener)
    assert [method.name for method in study.comparison.methods] == ["bce", "plm"]
    assert listener.texts == [
        "3 more runs of this study are damaged, renamed or not comparable, and left out: db_seed=0, "
        "hill_seed=0, plm_seed=0_seed=0"
    ]


def test_a_recipe_that_has_changed_does_not_shrink_the_study(pool, tmp_path):
    """Its file is known by its name alone: what it held is on the record of the runs."""
    recipe, folder = tmp_path / "mine.toml", tmp_path / "study"
    text = (resources.files("tailmask") / "recipes" / "digits.toml").read_text()
    recipe.write_text(text)
    compare(methods=["bce", "plm"], seeds=1, out=folder, recipe=str(recipe))
    before = (folder / "comparison.json").read_bytes()
    recipe.write_text(re.sub("batch_size = .*", "batch_size = 7", text))
    sentence = r"bce_seed=0 was trained with another recipe, .*schedule\.batch_size \(\d+ there, 7 asked"
    with pytest.raises(UserError, match=sentence):
        compare(methods=["asl"], seeds=1, out=folder, recipe=str(recipe))
    assert len(pool.made) == 2
    assert (folder / "comparison.json").read_bytes() == before


def test_nobody_else_writes_the_study_while_it_is_compared(pool, tmp_path):
    folder, compared = tmp_path / "study", []

    class Meanwhile(Display):
        def analysed(self, done, total):
            compared.append(done)
            with pytest.raises(UserError, match="another process"), locked(folder):
                pass

    compare(methods=["bce", "plm"], seeds=1, out=folder, listener=Meanwhile("compare"))
    assert compared == [1, 2]
    with locked(folder):
        pass


def test_runs_may_be_made_elsewhere(pool, tmp_path):
    folder = tmp_path / "study"
    planned = plan_comparison(Setting("digits"), ["bce", "plm"], seeds=2, out=folder)
    assert [run.label for run in planned] == ["bce, seed 0", "plm, seed 0", "bce, seed 1", "plm, seed 1"]
    assert pool.made == []
    pool(1).make(planned)
    study = compare(methods=["bce", "plm"], seeds=2, out=folder)
    assert len(pool.made) == 4, "nothing is made again"
    assert [method.seeds for method in study.comparison.methods] == [(0, 1), (0, 1)]


def test_another_study_is_told_by_what_it_trained(pool, tmp_path):
    compare(methods=["bce", "plm"], seeds=1, out=tmp_path / "study", epochs=3)
    with pytest.raises(UserError, match=r"differs in epochs \(3 there, 40 asked for\): choose"):
        compare(methods=["bce", "plm"], seeds=1, out=tmp_path / "study")
    compare(methods=["bce", "plm"], seeds=1, out=tmp_path / "whole")
    with pytest.raises(UserError, match=r"differs in epochs \(40 there, 3 asked for\): choose"):
        compare(methods=["bce", "plm"], seeds=1, out=tmp_path / "whole", epochs=3)
    compare(methods=["bce", "plm"], seeds=1, out=tmp_path / "whole", epochs=40)
    assert len(pool.made) == 4, "the recipe's own number is no other study"


def test_rarest_classes_are_measured_where_the_recipe_names_none(pool, tmp_path):
    data = tmp_path / "mine.csv"
    data.write_text("a,b\n")
    study = compare(str(data), ["bce", "plm"], seeds=1, out=tmp_path / "study")
    assert study.runs[0].config["recipe"]["evaluation"]["rarest"] == [2, 1]
    assert study.comparison.row("plm", "recall_rarest_2") is not None
    named = Setting("digits", fields=("evaluation.rarest=[]", "evaluation.frequent=[3]"))
    evaluation = named.resolve(pool(1).facts([named])[named]).recipe.evaluation
    assert (evaluation.rarest, evaluation.frequent) == ((2, 1), (3,))


def test_methods_are_known_by_one_name(pool, tmp_path):
    study = compare(methods=["plm+bce", "plm", "bce"], seeds=1, out=tmp_path / "study")
    assert [run.config["name"] for run in study.runs] == ["plm", "bce"]


def test_a_baseline_that_is_no_method_is_trained_too(pool, tmp_path):
    study = compare(methods=["plm"], seeds=1, out=tmp_path / "study", baseline="focal")
    assert study.comparison.baseline == "focal"


def test_a_failing_method_does_not_cost_the_study(pool, tmp_path):
    pool.failing = ("asl",)
    study = compare(methods=["bce", "asl", "plm"], seeds=2, out=tmp_path / "study")
    assert [failure.run.label for failure in study.failures] == ["asl, seed 0", "asl, seed 1"]
    assert [method.name for method in study.comparison.methods] == ["bce", "plm"]
    content = json.loads((tmp_path / "study" / "comparison.json").read_text())
    assert content["failures"][0] == {"run": "asl, seed 0", "sentence": "the loss became NaN"}
    assert "Failed: asl, seed 0: the loss became NaN" in (tmp_path / "study" / "comparison.md").read_text()


def test_nothing_is_compared_without_the_baseline(pool, tmp_path):
    pool.failing = ("bce",)
    study = compare(methods=["bce", "plm"], seeds=1, out=tmp_path / "study", baseline="bce")
    assert study.comparison is None
    assert study.tables() == {"rows": [], "differences": [], "class_gains": []}
    assert study.figures() == {}
    assert not study.report_path.exists()
