"""Cross-fitted runs: what the folder holds, against the learners called by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from tailmask._util.messages import UserError
from tailmask._util.seeds import derive
from tailmask.data import DataOptions, load
from tailmask.data.facts import DataFacts
from tailmask.inference import Predictor, export_model, load_predictor, write_predictions
from tailmask.learners.cross_fitted_run import make_run
from tailmask.learners.ensemble_run import make_ensemble
from tailmask.learners.folds import make_folds
from tailmask.learners.matrix.linear import LinearLearner
from tailmask.learners.out_of_fold_decisions import fit_robust_thresholds
from tailmask.learners.trained_model import TrainedModel, read_facts
from tailmask.runs import configure
from tailmask.runs.decision_file import read_decisions
from tailmask.training import Execution

OPTIONS = DataOptions(labels="tag_*", test=0.25)


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """120 rows with gaps, a category and a date; the labels follow from the features."""
    rng = np.random.default_rng(3)
    lines = ["size,colour,day,tag_big,tag_red,tag_rare"]
    for row in range(120):
        size, colour = rng.normal(), rng.choice(["red", "green", "blue"])
        tags = [size + 0.3 * rng.normal() > 0, colour == "red", row % 12 == 0]
        cell = "" if row % 10 == 3 else f"{size:.3f}"
        lines.append(f"{cell},{colour},2024-{row % 12 + 1:02d}-05,{','.join(str(int(tag)) for tag in tags)}")
    path = tmp_path_factory.mktemp("table") / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def config(table: Path, method: str, *, folds: int | None = 3, seed: int = 0):
    facts = DataFacts.of(load(table, OPTIONS))
    return configure(str(table), method, seed=seed, options=OPTIONS, folds=folds, epochs=2, facts=facts)


def test_outputs_are_those_of_the_fold_models(table: Path, tmp_path: Path) -> None:
    run = make_run(config(table, "linear:C=1"), tmp_path / "run")
    raw = load(table, OPTIONS).raw
    folds = make_folds(raw.development, 3, seed=0)
    out_of_fold = np.empty(raw.development.labelled.shape, dtype=np.float32)
    test = []
    for fold in range(3):
        rows = raw.development.take(folds.train(fold))
        fitted = LinearLearner(C=1.0).fit(rows, seed=derive(0, "fold", fold))
        held_out = folds.held_out(fold)
        out_of_fold[held_out] = fitted.logits(raw.development.take(held_out)).numpy()
        test.append(fitted.logits(raw.test).double())
    found = run.predictions()
    np.testing.assert_array_equal(found["validation_logits"], out_of_fold)
    np.testing.assert_array_equal(found["validation_targets"], raw.development.labelled)
    np.testing.assert_array_equal(found["test_logits"], torch.stack(test).mean(0).float().numpy())
    np.testing.assert_array_equal(found["validation_folds"], folds.number)
    decided = found["test_logits"] >= 0
    expected = f1_score(raw.test.labelled, decided, average="macro", zero_division=0)
    assert run.metrics["test"]["summary"]["f1"] == pytest.approx(expected)
    assert not (run.folder / "folds").exists()


@pytest.mark.parametrize(
    ("options", "folds"),
    [({}, 1), ({}, 3), ({"time": "when"}, 1), ({"time": "when"}, 3), ({"validation": 0.0}, 3)],
)
def test_outputs_have_the_numbers_of_their_rows(tmp_path: Path, options: dict, folds: int) -> None:
    """The size of a row is its number in the file, and its label follows from it."""
    numbers = np.arange(1, 121)
    lines = [f"{n},{n * 37 % 120},{int(n % 3 == 0)},{int(n % 4 == 0)}" for n in numbers]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["size,when,tag_three,tag_four", *lines]) + "\n")
    chosen = DataOptions(labels="tag_*", features="size", **options)
    facts = DataFacts.of(load(path, chosen))
    asked = configure(str(path), "linear:C=1", options=chosen, folds=folds, facts=facts)
    found = make_run(asked, tmp_path / "run").predictions()
    for part in ("validation", "test"):
        rows = found[f"{part}_rows"]
        expected = np.stack([rows % 3 == 0, rows % 4 == 0], axis=1)
        np.testing.assert_array_equal(found[f"{part}_targets"], expected)
    parts = [found[f"{part}_rows"] for part in ("train", "test", *(["validation"] if folds == 1 else []))]
    assert sorted(np.concatenate(parts)) == numbers.tolist()


@pytest.mark.parametrize("folds", [1, 3])
def test_expected_scores_of_groups_have_wider_intervals(tmp_path: Path, folds: int) -> None:
    """The rows of a patient have the same outputs, so ten patients say no more than ten rows."""
    rng = np.random.default_rng(0)
    patients = np.repeat(np.arange(40), 8)
    size, noise = rng.normal(size=(2, 40))
    tags = np.stack([size + noise > 0.3, size - noise > 0], axis=1).astype(int)
    path = tmp_path / "table.csv"
    lines = [f"{p},{size[p]:.3f},{tags[p, 0]},{tags[p, 1]}" for p in patients]
    path.write_text("\n".join(["patient,size,tag_a,tag_b", *lines]) + "\n")
    width = {}
    for column in ("group", "drop"):
        options = DataOptions(labels="tag_*", validation=0.4, **{column: "patient"})
        facts = DataFacts.of(load(path, options))
        config = configure(str(path), "bce", options=options, folds=folds, epochs=2, facts=facts)
        decisions = read_decisions(make_run(config, tmp_path / column).folder)
        width[column] = np.mean([each.f1_interval[1] - each.f1_interval[0] for each in decisions.classes])
    assert width["group"] > 1.5 * width["drop"]


def test_tuned_thresholds_are_those_of_the_out_of_fold_outputs(table: Path, tmp_path: Path) -> None:
    run = make_run(config(table, "linear:C=1"), tmp_path / "run")
    thresholds = torch.tensor(read_facts(run.folder / "model").thresholds, dtype=torch.float64)
    found = run.predictions()
    probabilities = torch.from_numpy(found["test_logits"]).double().sigmoid()
    expected = f1_score(found["test_targets"], probabilities >= thresholds, average="macro", zero_division=0)
    assert run.metrics["test_tuned"]["summary"]["f1"] == pytest.approx(expected)


def test_metrics_have_the_shares_of_predicted_rows(table: Path, tmp_path: Path) -> None:
    run = make_run(config(table, "linear:C=1"), tmp_path / "run")
    found, thresholds = run.predictions(), read_decisions(run.folder).thresholds.numpy()
    shares = run.metrics["test_tuned"]["predicted_share"]
    decided = 1 / (1 + np.exp(-found["test_logits"].astype(float))) >= thresholds
    np.testing.assert_allclose(shares["test"], decided.mean(axis=0))
    numbers = found["validation_folds"]
    development = load(table, OPTIONS).raw.development.labelled
    predicted = []
    for fold in range(3):
        others, held_out = numbers != fold, numbers == fold
        fitted = fit_robust_thresholds(
            torch.from_numpy(found["validation_logits"][others]), development[others], rare=[]
        )
        predicted.append(torch.from_numpy(found["validation_logits"][held_out]).double().sigmoid() >= fitted)
    np.testing.assert_allclose(shares["out_of_fold"], torch.cat(predicted).double().mean(0).numpy())


@pytest.mark.parametrize("method", ["bce", "plm", "trees:trees=10", "boost:rounds=5", "linear"])
@pytest.mark.parametrize("folds", [1, 2])
def test_the_stored_model_gives_the_stored_outputs(
    table: Path, tmp_path: Path, method: str, folds: int
) -> None:
    run = make_run(config(table, method, folds=folds), tmp_path / "run")
    again = make_run(config(table, method, folds=folds), tmp_path / "run")
    assert again.metrics == run.metrics
    predictions = tmp_path / "predictions.csv"
    assert write_predictions(load_predictor(run.folder), table, predictions) == 120
    if run.config["folds"] == 1 and method in ("bce", "plm"):
        return  # one network: its own tests hold this
    with pytest.raises(UserError, match="load_predictor"):
        Predictor.load(run.folder)
    model = TrainedModel.load(run.folder / "model")
    logits = model.outputs(load(table, OPTIONS).raw.test)[1]
    np.testing.assert_array_equal(logits.numpy(), run.predictions()["test_logits"])


class Interrupting:
    """Ctrl-C when the second fold ends, or the third begins."""

    def note(self, text): ...
    def begin(self, *, done, total): ...
    def record(self, record): ...
    def end(self): ...

    def step(self, *, epoch, share, loss, num_samples):
        if epoch == 3:
            raise KeyboardInterrupt


@pytest.mark.parametrize("method", ["linear:C=1", "bce"])
def test_an_interrupted_run_is_resumed_to_the_same_result(table: Path, tmp_path: Path, method: str) -> None:
    whole = make_run(config(table, method), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        make_run(config(table, method), tmp_path / "cut", progress=Interrupting())
    assert (tmp_path / "cut" / "folds" / "fold-0" / "model" / "fitted.json").is_file()
    assert not (tmp_path / "cut" / "metrics.json").exists()
    resumed = make_run(config(table, method), tmp_path / "cut")
    assert resumed.metrics == whole.metrics
    for name, values in whole.predictions().items():
        np.testing.assert_array_equal(resumed.predictions()[name], values)


def test_an_ensemble_is_stored_with_its_arms(table: Path, tmp_path: Path) -> None:
    dataset = load(table, OPTIONS)
    methods = ("linear:C=1", "trees:trees=10", "bce")
    runs = [make_run(config(table, name), tmp_path / name[:3], dataset=dataset) for name in methods]
    run = make_ensemble(tmp_path / "ensemble", runs, config(table, "ensemble"), dataset)
    assert run.config["name"] == "ensemble"
    logits = TrainedModel.load(run.folder / "model").outputs(dataset.raw.test)[1]
    np.testing.assert_allclose(logits.numpy(), run.predictions()["test_logits"], atol=1e-5)
    before = (run.folder / "metrics.json").stat().st_mtime_ns
    make_ensemble(tmp_path / "ensemble", runs, config(table, "ensemble"), dataset)
    assert (run.folder / "metrics.json").stat().st_mtime_ns == before  # the same arms: nothing to do
    make_ensemble(tmp_path / "ensemble", runs[:1], config(table, "ensemble"), dataset)
    assert (run.folder / "metrics.json").stat().st_mtime_ns != before


def test_an_ensemble_without_folds_takes_plain_networks(table: Path, tmp_path: Path) -> None:
    dataset = load(table, OPTIONS)
    runs = [
        make_run(config(table, name, folds=1), tmp_path / name[:3], dataset=dataset)
        for name in ("linear:C=1", "plm")
    ]
    run = make_ensemble(tmp_path / "ensemble", runs, config(table, "bce", folds=1), dataset)
    logits = TrainedModel.load(run.folder / "model").outputs(dataset.raw.test)[1]
    np.testing.assert_allclose(logits.numpy(), run.predictions()["test_logits"], atol=1e-5)


def test_images_and_missing_validation_are_refused(table: Path, tmp_path: Path) -> None:
    digits = DataFacts.of(load("digits"))
    with pytest.raises(UserError, match="tables and texts"):
        make_run(configure("digits", "trees", facts=digits), tmp_path / "a")
    with pytest.raises(UserError, match="folds"):
        configure("digits", "bce", folds=3, facts=digits)
    options = DataOptions(labels="tag_*", validation=0.0)
    facts = DataFacts.of(load(table, options))
    with pytest.raises(UserError, match="validation"):
        make_run(configure(str(table), "trees", options=options, folds=1, facts=facts), tmp_path / "b")
    assert not list(tmp_path.iterdir())


def test_learners_that_are_no_networks_refuse_finetuning(tmp_path: Path) -> None:
    options = DataOptions(backbone="hf:some-model", finetune=True)
    images = dataclasses.replace(load("digits"), raw=None)
    config = configure("digits", "linear", options=options, recipe="digits")
    with pytest.raises(UserError, match="--finetune"):
        make_run(config, tmp_path / "run", dataset=images)


def test_small_tables_are_cross_fitted_by_default(table: Path) -> None:
    assert config(table, "bce", folds=None).folds == 5


def test_several_models_are_not_exported_as_one_network(table: Path, tmp_path: Path) -> None:
    run = make_run(config(table, "linear:C=1", folds=2), tmp_path / "run")
    with pytest.raises(UserError, match="--folds 1"):
        export_model(run.folder, tmp_path / "model.pt2")
    assert not (tmp_path / "model.pt2").exists()
    (run.folder / "model").rename(tmp_path / "copied")
    assert load_predictor(tmp_path / "copied").classes == ("tag_big", "tag_red", "tag_rare")


def test_a_logger_gets_the_results(table: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    execution = Execution(logger="tensorboard")
    make_run(config(table, "linear:C=1"), tmp_path / "run", execution=execution)
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))
