"""A run's model gives what the run recorded, decides as it says, and runs no code that it brings along."""

from __future__ import annotations

import json
import pickle
import shutil
import sys

import numpy as np
import pytest
import torch
from finished_runs import describe, random_model, train_table, write_table
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.inference import Predictor
from tailmask.inference.classifier import Classifier
from tailmask.inference.label_decision import LabelDecision
from tailmask.runs import Run


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits.astype(np.float64)))


def test_probabilities_are_those_of_the_run(digits_run):
    recorded = Run(digits_run).predictions()
    predictor = Predictor.load(digits_run)
    inputs, _ = load("digits").test.batch(torch.arange(200))
    np.testing.assert_allclose(
        predictor.predict_proba(inputs), sigmoid(recorded["test_logits"][:200]), atol=1e-6
    )
    assert predictor.classes == tuple("0123456789")


def test_files_become_inputs_as_in_training(table_run, tmp_path):
    predictor = Predictor.load(table_run)
    path = table_run.parent / "data.csv"
    dataset = load(path, DataOptions(labels="tag_*", features="colour,age"))
    whole = torch.cat(list(predictor.batches(path, batch_size=7)))
    assert len(whole) == 300
    rows = {tuple(row) for row in whole.tolist()}
    inputs, _ = dataset.test.batch(torch.arange(len(dataset.test)))
    assert {tuple(row) for row in inputs.tolist()} <= rows
    recorded = Run(table_run).predictions()["test_logits"]
    np.testing.assert_allclose(predictor.predict_proba(inputs), sigmoid(recorded), atol=1e-6)


def test_cosines_are_scaled_and_softmaxed(single_run):
    predictor = Predictor.load(single_run)
    dataset = load(single_run.parent / "single.npz")
    inputs, _ = dataset.test.batch(torch.arange(len(dataset.test)))
    logits = Run(single_run).predictions()["test_logits"].astype(np.float64)
    assert np.abs(logits).max() > 2  # not cosines any more
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(predictor.predict_proba(inputs), expected, atol=1e-6)
    assert predictor.decision.thresholds is None
    np.testing.assert_array_equal(predictor.predict(inputs).int().argmax(dim=1), logits.argmax(axis=1))
    assert (predictor.predict(inputs).sum(dim=1) == 1).all()


def test_labels_reach_their_threshold(tmp_path):
    predictor = Predictor.load(random_model(tmp_path / "m.safetensors"))  # 0.3 and 0.6
    probabilities = torch.tensor([[0.29, 0.61], [0.3, 0.6], [0.31, 0.59]])
    assert predictor.decision.labels(probabilities, probabilities.logit()).tolist() == [
        [False, True],
        [True, True],
        [True, False],
    ]


@pytest.mark.parametrize("prior_shift", [None, torch.tensor([1.0, -1.0, 0.0])])
def test_the_highest_logit_is_predicted_where_probabilities_round_to_one(prior_shift):
    classifier = Classifier(nn.Identity(), prior_shift=prior_shift)
    description = describe(classes=("ant", "bee", "cat"), single_label=True)
    predictor = Predictor(classifier, description, LabelDecision(None), torch.device("cpu"))
    inputs = torch.tensor([[18.0, 30.0, -5.0]])
    assert predictor.predict_proba(inputs)[:, :2].tolist() == [[1.0, 1.0]]
    assert predictor.predict(inputs).tolist() == [[False, True, False]]


@pytest.mark.parametrize(
    ("asked", "fitted", "expected"),
    [
        (None, (0.3, 0.6), [0.3, 0.6]),
        ("tuned", (0.3, 0.6), [0.3, 0.6]),
        (0.25, (0.3, 0.6), [0.25, 0.25]),
        (None, None, [0.4, 0.4]),
    ],
)
def test_which_thresholds(asked, fitted, expected, tmp_path):
    path = random_model(tmp_path / "m.safetensors", thresholds=fitted, threshold=0.4)
    assert Predictor.load(path, thresholds=asked).decision.thresholds.tolist() == pytest.approx(expected)


def test_prior_shift_multiplies_the_odds_and_keeps_tuned_labels(tmp_path):
    path = random_model(tmp_path / "m.safetensors")
    plain, shifted = Predictor.load(path), Predictor.load(path, prior_shift=True)
    inputs = torch.randn(500, 3) * 3
    before, after = (p.predict_proba(inputs).double() for p in (plain, shifted))
    factor = torch.tensor([0.5, -1.0]).double().exp()
    np.testing.assert_allclose(after / (1 - after), before / (1 - before) * factor, rtol=1e-3)
    labels = plain.predict(inputs)
    assert 0.1 < labels.float().mean() < 0.9
    assert shifted.predict(inputs).equal(labels)
    at_half = [Predictor.load(path, thresholds=0.5, prior_shift=shift) for shift in (False, True)]
    assert not at_half[0].predict(inputs).equal(at_half[1].predict(inputs))


@pytest.mark.parametrize(
    ("options", "changes", "message"),
    [
        ({"thresholds": "tuned"}, {"thresholds": None}, "has no tuned thresholds, .* no validation data"),
        ({"thresholds": 1.5}, {}, "must be a number between 0 and 1 or 'tuned', got 1.5"),
        ({"thresholds": "tunned"}, {}, "must be a number between 0 and 1 or 'tuned', got 'tunned'"),
        ({"thresholds": [0.2, 0.3]}, {}, r"must be a number between 0 and 1 or 'tuned', got \[0.2, 0.3\]"),
        ({"thresholds": 0.5}, {"single_label": True}, "predicts one label per sample"),
        ({"prior_shift": True}, {"prior_shift": None, "method": "focal"}, "was trained with 'focal'"),
        (
            {"prior_shift": True},
            {"prior_shift": None, "method": "plm+bce+undersample"},
            "such as bce and without a sampler has one",
        ),
    ],
)
def test_what_a_model_does_not_have_is_said(options, changes, message, tmp_path):
    with pytest.raises(UserError, match=message):
        Predictor.load(random_model(tmp_path / "m.safetensors", **changes), **options)


def test_inputs_of_another_shape_are_refused(tmp_path):
    predictor = Predictor.load(random_model(tmp_path / "m.safetensors"))
    with pytest.raises(ValueError, match=r"inputs must have shape \(B, 3\), got \(2, 4\)"):
        predictor.predict_proba(torch.zeros(2, 4))


def test_folders_that_hold_no_model(table_run, tmp_path):
    with pytest.raises(UserError, match=r"is not a run: it has no run\.json"):
        Predictor.load(tmp_path)
    shutil.copy(table_run / "run.json", tmp_path)
    with pytest.raises(UserError, match="is not complete: run the same `tailmask train` command"):
        Predictor.load(tmp_path)
    shutil.copy(table_run / "metrics.json", tmp_path)
    with pytest.raises(UserError, match=r"has no model\.safetensors"):
        Predictor.load(tmp_path)


class Bomb:
    def __reduce__(self):
        return (sys.exit, ("it was unpickled",))


def test_nothing_is_unpickled(table_run, tmp_path):
    for file in ("run.json", "metrics.json"):
        shutil.copy(table_run / file, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(UserError, match="is not a model file"):
        Predictor.load(tmp_path)


OWN = """
from torch import nn

def make(*, shape, num_classes):
    return nn.Sequential(nn.Linear(shape[0], 4), nn.Tanh(), nn.Linear(4, num_classes))
"""


def test_a_network_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "my_networks.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    fields = ["model.name=my_networks:make", "model.hidden=[]", "model.dropout=0"]
    run = train_table(tmp_path, method="bce", fields=fields)
    with pytest.raises(UserError, match="with --model my_networks:make"):
        Predictor.load(run)
    with pytest.raises(UserError, match="with --model my_networks:make"):
        Predictor.load(run, model="os:system")
    predictor = Predictor.load(run, model="my_networks:make")
    inputs = next(predictor.batches(write_table(tmp_path / "new.csv", 5, labels=False)))
    weights = {name: value.double() for name, value in load_file(run / "model.safetensors").items()}
    hidden = torch.tanh(inputs.double() @ weights["0.weight"].T + weights["0.bias"])
    logits = hidden @ weights["2.weight"].T + weights["2.bias"]
    np.testing.assert_allclose(predictor.predict_proba(inputs), logits.sigmoid(), atol=1e-6)
    monkeypatch.delitem(sys.modules, "my_networks")
    (tmp_path / "my_networks.py").unlink()
    with pytest.raises(UserError, match="cannot be imported: No module named 'my_networks'"):
        Predictor.load(run, model="my_networks:make")


def test_an_encoder_that_is_not_known_is_missed_only_where_it_is_needed(tmp_path):
    path = random_model(tmp_path / "m.safetensors")
    predictor = Predictor.load(path)
    assert predictor.predict_proba(torch.zeros(2, 3)).shape == (2, 2)
    with pytest.raises(UserError, match="kind 'unknown'"):
        predictor.batches(path)


def test_weights_that_do_not_fit_are_refused(table_run, tmp_path):
    source = table_run / "model.safetensors"
    with safe_open(source, framework="pt") as file:
        metadata = file.metadata()
    description = json.loads(metadata["tailmask"])
    description["model"]["hidden"] = [9]
    metadata["tailmask"] = json.dumps(description)
    save_file(load_file(source), tmp_path / "m.safetensors", metadata=metadata)
    with pytest.raises(UserError, match="do not fit its description"):
        Predictor.load(tmp_path / "m.safetensors")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine without CUDA is what is tested")
@pytest.mark.parametrize("device", ["cuda", "nonsense"])
def test_a_device_that_is_not_there(device, tmp_path):
    with pytest.raises(UserError, match=f"the device '{device}' cannot be used"):
        Predictor.load(random_model(tmp_path / "m.safetensors"), device=device)
