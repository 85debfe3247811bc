"""What each table and figure says of finished runs; nothing is trained."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from reproducing import DATA, DIGITS, REQUEST, add_runs, cells, summary

from made_up_runs import with_epochs, write_run
from tailmask.paper import Request, plan_reproduction
from tailmask.paper.published_numbers import load_paper


def test_cifar_tables_have_a_column_for_each_imbalance(make, tmp_path):
    request = dataclasses.replace(REQUEST, imbalances=(100.0,))
    runs = add_runs(tmp_path, "table3", request=request, single_label=True)
    result = make("table3", request).result
    columns = result["tables"][0]["columns"]
    assert columns[2:4] == ["ρ = 100, Error", "ρ = 100, Error K=5"]
    own = summary(runs[100.0, "ldam+drw", 0])
    error, rarest = cells(result, "ldam+drw")[2:4]
    assert (error["paper"], rarest["paper"]) == (22.97, None)
    assert error["mean"] == pytest.approx(100 * own["error_balanced"])
    assert rarest["mean"] == pytest.approx(100 * own["error_rarest_5"])
    assert [cell["mean"] for cell in cells(result, "plm")[:2]] == [None, None]


@pytest.mark.parametrize(("target", "is_noted"), [("table3", True), ("table4", False)])
def test_tables_of_short_trainings_with_a_large_lambda_say_so(make, tmp_path, target, is_noted):
    request = dataclasses.replace(REQUEST, budget=0.34, imbalances=(100.0,), methods=("plm",))
    add_runs(tmp_path, target, request=request, single_label=True)
    notes = make(target, request).result["notes"]
    assert any("masks too many positives of frequent classes" in note for note in notes) == is_noted


def test_ablations_are_labelled_by_what_they_vary(make, tmp_path):
    add_runs(tmp_path, "table5", single_label=True)
    result = make("table5").result
    assert [row["label"] for row in result["tables"][0]["rows"]] == ["1", "0.1", "0.01", "0 (bce)"]
    assert "λ = 0.01 is 0.02 here" in result["notes"][-1]
    add_runs(tmp_path, "table6", single_label=True)
    labels = [row["label"] for row in make("table6").result["tables"][0]["rows"]]
    assert labels == ["min r", "max r", "mean r", "r, the data's"]


def test_methods_of_ones_own_become_rows(make, tmp_path):
    request = dataclasses.replace(REQUEST, methods=("plm:adapt=prevalence",))
    add_runs(tmp_path, "table1", request=request)
    result = make("table1", request).result
    assert [cell["paper"] for cell in cells(result, "plm:adapt=prevalence")] == [None] * 8
    assert all(cell["n"] == 1 for cell in cells(result, "plm:adapt=prevalence"))
    assert cells(result, "plm")[0] == {"paper": 87.41, "mean": None, "std": None, "n": 0}


def test_ratios_stand_beside_the_papers_end_points(make, tmp_path):
    add_runs(tmp_path, "figure2", seeds=2)
    made = make("figure2")
    first, last, factor = cells(made.result, "9")
    assert (first["paper"], last["paper"], factor["paper"]) == (0.007, 0.047, 6.54)
    start = 10 / (2700 - 10)
    assert first["mean"] == pytest.approx(start)
    assert last["mean"] == pytest.approx(4 * start), "the made-up ratios double each epoch"
    assert factor["mean"] == pytest.approx(4)
    assert cells(made.result, "5")[0]["paper"] is None
    assert len(made.figure.axes[0].lines) == 10


def test_class_wise_figures_are_ordered_by_frequency_and_say_what_gains(make, tmp_path):
    runs = add_runs(tmp_path, "figure4", train_positives=DATA["coco"][1][::-1])
    result = make("figure4").result
    labels = [row["label"] for row in result["tables"][1]["rows"]]
    assert labels[0] == "thing 79 (2000)"
    assert labels[-1] == "thing 0 (420)"
    per_class = {
        method: json.loads((runs[100.0, method, 0] / "metrics.json").read_text())["test"]["per_class"]["f1"]
        for method in ("bce", "plm")
    }
    bce, plm, gain = cells(result, "thing 79 (2000)", table=1)
    assert bce["mean"] == pytest.approx(100 * per_class["bce"][79])
    assert plm["mean"] == pytest.approx(100 * per_class["plm"][79])
    assert gain["mean"] == pytest.approx(plm["mean"] - bce["mean"])
    (improved,) = result["tables"][0]["rows"][0]["cells"]
    assert improved["paper"] == 15
    assert improved["mean"] == sum(per_class["plm"][c] > per_class["bce"][c] for c in range(15))
    assert "none" in result["tables"][0]["rows"][1]["label"], "no class has an F1 below 20 %"


def test_difficult_classes_have_many_samples_and_a_low_f1():
    from tailmask.paper.items.scores_by_class import Scores

    bce = ((50.0, 60.0), (15.0, 21.0), (30.0, 30.0), (5.0, 5.0))
    scores = Scores("", ("a", "b", "c", "d"), (9, 8, 2, 1), bce, bce)
    assert scores.difficult() == [1]


def test_precision_at_the_head_and_recall_at_the_tail(make, tmp_path):
    runs = add_runs(tmp_path, "discussion-precision")
    result = make("discussion-precision").result
    reports = {
        method: json.loads((runs[100.0, method, 0] / "metrics.json").read_text())["test"]["per_class"]
        for method in ("bce", "plm")
    }
    head = {method: 100 * np.mean(report["precision"][:5]) for method, report in reports.items()}
    tail = {method: 100 * np.mean(report["recall"][-5:]) for method, report in reports.items()}
    bce, plm, gain = cells(result, "Precision, 5 most frequent classes")
    assert (bce["mean"], plm["mean"]) == (pytest.approx(head["bce"]), pytest.approx(head["plm"]))
    assert gain["paper"] == 12.73
    assert gain["mean"] == pytest.approx(head["plm"] - head["bce"])
    bce, plm, gain = cells(result, "Recall, 5 rarest classes")
    assert (bce["mean"], plm["mean"]) == (pytest.approx(tail["bce"]), pytest.approx(tail["plm"]))
    assert gain["paper"] == 13.04
    # The recipe itself has the ten most frequent: the same mean by another way.
    recorded = summary(runs[100.0, "plm", 0])["precision_frequent_10"]
    assert cells(result, "Precision, 10 most frequent classes")[1]["mean"] == pytest.approx(100 * recorded)


def test_imbalance_that_is_left(make, tmp_path):
    request = with_epochs(Request(data="digits"), 3)
    add_runs(tmp_path, "discussion-imbalance", request=request)
    result = make("discussion-imbalance", request).result
    data, undersampled, plm = (row["cells"] for row in result["tables"][0]["rows"])
    assert data[0]["mean"] == pytest.approx(1606 / 97)
    assert data[1]["mean"] == pytest.approx((1606 / 1610) / (97 / 3119))
    assert undersampled[0]["n"] == 10
    assert 1 < undersampled[0]["mean"] < data[0]["mean"]
    # The made-up run keeps all positives and a third of all negatives.
    assert plm[0]["mean"] == pytest.approx(90)
    assert plm[1]["mean"] == pytest.approx((900 / 1800) / (10 / 2690))


def test_distributions_are_of_the_most_and_the_least_frequent_classes(make, tmp_path):
    runs = add_runs(tmp_path, "figure1", single_label=True)
    made = make("figure1")
    rows = {row["label"]: [cell["mean"] for cell in row["cells"]] for row in made.result["tables"][0]["rows"]}
    assert len(rows) == 16
    for values in rows.values():
        assert sum(values) == pytest.approx(100)
    arrays = np.load(runs[100.0, "plm", 0] / "predictions.npz")
    outputs = 1 / (1 + np.exp(-arrays["test_logits"][arrays["test_targets"][:, 9] == 1, 9]))
    counted, _ = np.histogram(outputs, bins=10, range=(0, 1))
    assert rows["9 present, plm"] == pytest.approx(list(100 * counted / counted.sum()))
    assert not any(label.startswith(("2 ", "7 ")) for label in rows)


def test_outputs_on_the_training_set_are_those_of_the_trained_network(make, tmp_path):
    from tailmask.data import load
    from tailmask.runs.model_file import ModelDescription, save_model
    from tailmask.training.run_parts import build_parts

    request, dataset = Request(data="digits", budget=0.5), load("digits")
    (run,) = plan_reproduction("figure7", request, runs=tmp_path / "runs")
    write_run(run, classes=DIGITS, train_positives=dataset.train.counts()[1].tolist())
    module = build_parts(run.config, dataset)
    description = ModelDescription(
        method="bce",
        classes=dataset.classes,
        shape=dataset.shape,
        model=module.model_arguments,
        encoder=dataset.encoder.to_json(),
        single_label=False,
        activation="sigmoid",
        logit_scale=1.0,
        threshold=0.5,
        thresholds=None,
        prior_shift=None,
    )
    save_model(run.folder / "model.safetensors", module.network, description)
    made = make("figure7", request)
    rows = {row["label"]: [cell["mean"] for cell in row["cells"]] for row in made.result["tables"][0]["rows"]}
    assert len(rows) == 8
    inputs, targets = dataset.train.batch(torch.arange(len(dataset.train)))
    with torch.no_grad():
        outputs = module.network.eval()(inputs).sigmoid().numpy()
    for c in (0, 1, 8, 9):
        for label, kind in ((1, "present"), (0, "absent")):
            counted, _ = np.histogram(outputs[targets[:, c] == label, c], bins=10, range=(0, 1))
            expected = list(100 * counted / counted.sum())
            assert rows[f"{c} {kind}, bce"] == pytest.approx(expected, abs=0.1)  # at a bin's edge


def test_toy_example_is_the_appendix(make):
    histograms = make("figure5", Request()).result["tables"][0]["rows"]
    values = [[cell["mean"] for cell in row["cells"]] for row in histograms]
    assert values == [[0, 0, 0, 5], [1, 1, 1, 2], [5, 0, 0, 0], [2, 2, 0, 1]]
    shares = make("figure6", Request()).result["tables"][0]["rows"]
    assert [cell["mean"] for cell in shares[1]["cells"]] == pytest.approx([0.2, 0.2, 0.2, 0.4])


def test_class_counts_of_any_data(make):
    result = make("table7", Request(data="digits")).result
    assert [cell["mean"] for cell in cells(result, "9")] == [97, 1080]
    assert [cell["mean"] for cell in cells(result, "Samples")] == [3216, 5400]
    assert result["tables"][1]["rows"][0]["cells"][0]["mean"] == pytest.approx(1606 / 97)


def test_class_counts_of_multimnist(make, real_data):
    result = make("table7", Request()).result
    paper = load_paper()["table7"]
    for digit, stated in zip(paper["classes"], paper["test"], strict=True):
        train, test = cells(result, digit)
        assert test["mean"] == test["paper"] == stated
        assert train["mean"] == pytest.approx(train["paper"], rel=0.25)
    assert [cell["mean"] for cell in cells(result, "Samples")] == [14694, 90000]
