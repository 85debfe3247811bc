"""`compare --tune rate`: λ is chosen on the validation split, with a seed of its own."""

from __future__ import annotations

import json

import pytest

from tailmask._util.messages import UserError
from tailmask.studies import compare
from tailmask.studies.tuning import RATES, TUNING_SEED


def rate_of(run):
    return run.config.method.masking.get("rate")


def test_the_rate_is_chosen_on_validation_with_a_seed_of_its_own(pool, tmp_path):
    # On the test set the made-up runs of all rates are equally good: only validation tells them apart.
    pool.validation_f1 = staticmethod(lambda run: 0.9 if run.config.name.startswith("plm:rate=0.3") else 0.2)
    study = compare(methods=["bce", "plm", "plm:rate=0.05"], seeds=2, out=tmp_path / "study", tune="rate")
    assert [method.name for method in study.comparison.methods] == ["bce", "plm:rate=0.3", "plm:rate=0.05"]
    assert [(trial.rate, trial.chosen) for trial in study.trials] == [(rate, rate == 0.3) for rate in RATES]
    tries = [run for run in pool.made if run.folder.parent.name == "tuning"]
    assert [rate_of(run) for run in tries] == list(RATES)
    assert {run.config.seed for run in tries} == {TUNING_SEED}
    assert TUNING_SEED not in {run.config["seed"] for run in study.runs}
    content = json.loads((tmp_path / "study" / "comparison.json").read_text())
    assert [trial["validation_f1"] for trial in content["trials"]] == [0.2, 0.2, 0.2, 0.2, 0.9, 0.2]
    assert "| plm | 0.3 | 90.00 | yes |" in (tmp_path / "study" / "comparison.md").read_text()


def test_of_the_update_by_prevalence_the_rate_that_fits_the_epochs_is_tried_too(pool, tmp_path):
    pool.validation_f1 = staticmethod(lambda run: 0.9 if "rate=0.45" in run.config.name else 0.2)
    study = compare(methods=["bce", "plm:adapt=prevalence"], seeds=1, out=tmp_path / "study", tune="rate")
    assert [trial.rate for trial in study.trials] == sorted([*RATES, 0.45])  # 18 over 40 epochs
    assert study.comparison.methods[1].name == "plm:rate=0.45,adapt=prevalence"


def test_tries_stay_on_record_when_the_study_grows(pool, tmp_path):
    folder = tmp_path / "study"
    tuned = compare(methods=["bce", "plm"], seeds=1, out=folder, tune="rate")
    assert compare(methods=["bce", "asl"], seeds=1, out=folder).trials == tuned.trials
    again = compare(methods=["bce", "plm", "plm+asl"], seeds=1, out=folder, tune="rate")
    assert [trial.method for trial in again.trials] == ["plm"] * len(RATES) + ["plm+asl"] * len(RATES)


def test_a_rate_that_is_chosen_and_also_named_is_one_method(pool, tmp_path):
    pool.validation_f1 = staticmethod(lambda run: 0.9 if run.config.name.startswith("plm:rate=0.3") else 0.2)
    study = compare(methods=["bce", "plm", "plm:rate=0.3"], seeds=1, out=tmp_path / "study", tune="rate")
    assert [method.name for method in study.comparison.methods] == ["bce", "plm:rate=0.3"]


def test_a_rate_that_fails_is_on_record_and_not_chosen(pool, tmp_path):
    pool.failing = ("plm:rate=1",)
    pool.validation_f1 = staticmethod(lambda run: 0.4)
    study = compare(methods=["bce", "plm"], seeds=1, out=tmp_path / "study", tune="rate")
    assert study.trials[-1].validation_f1 is None
    assert study.trials[0].chosen, "of equal ones the lowest"
    pool.failing = tuple(f"plm:rate={rate:g}" for rate in RATES)
    with pytest.raises(UserError, match="no λ could be tried for plm: the loss became NaN"):
        compare(methods=["bce", "plm"], seeds=1, out=tmp_path / "other", tune="rate")


def test_no_rate_is_tried_twice_where_a_budget_raises_low_ones(pool, tmp_path):
    study = compare(methods=["bce", "plm"], seeds=1, out=tmp_path / "study", tune="rate", budget=0.1)
    assert [trial.rate for trial in study.trials] == [0.03, 0.1, 0.3, 1.0]
    assert [trial.resolved for trial in study.trials] == [
        "plm:rate=0.03",
        "plm:rate=0.1",
        "plm:rate=0.3",
        "plm:rate=1",
    ]


def test_tuning_needs_a_validation_split(pool, tmp_path):
    pool.has_validation = False
    with pytest.raises(UserError, match="--tune needs a validation split"):
        compare(methods=["bce", "plm"], seeds=1, out=tmp_path / "study", tune="rate")
    assert not (tmp_path / "study").exists()
