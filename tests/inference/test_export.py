"""Exported models give the network's probabilities at any batch size, and say what they are."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import onnxruntime
import pytest
import torch
from finished_runs import random_model
from safetensors.torch import load_file
from torch import nn

from tailmask import __version__
from tailmask._util.messages import UserError
from tailmask.data import load
from tailmask.inference import Predictor, export_model
from tailmask.models import MODELS, build_model
from tailmask.runs import Run

SIZES = (1, 7, 64)
LARGE = ("resnet50", "resnet12-wide4", "resnet12-fewshot", "resnet12-fewshot-wide")
SHAPES = {
    "mlp": (20,),
    "linear": (4, 5),
    "cnn": (1, 12, 12),
    "resnet12": (1, 32, 32),
    "resnet50": (3, 64, 64),
}


def onnx_session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def model_file(name, folder):
    model = {"name": name} | ({"hidden": [16, 8], "dropout": 0.5} if name == "mlp" else {})
    classes = tuple("abcdefg")
    fitted = {"thresholds": (0.4,) * 7, "prior_shift": (0.1,) * 7}
    shape = SHAPES.get(name, (3, 32, 32))
    return random_model(folder / "m.safetensors", shape=shape, model=model, classes=classes, **fitted)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in LARGE)) for name in MODELS]
)
def test_every_network_keeps_its_probabilities_in_onnx(name, tmp_path):
    file = model_file(name, tmp_path)
    exported = export_model(file, tmp_path / "m.onnx")
    assert exported.files == (tmp_path / "m.onnx",)
    assert exported.difference <= 1e-5
    predictor, session = Predictor.load(file), onnx_session(tmp_path / "m.onnx")
    assert session.get_inputs()[0].shape[0] == "batch"
    for size in SIZES:
        inputs = torch.randn(size, *predictor.description.shape)
        probabilities, logits = session.run(None, {"inputs": inputs.numpy()})
        expected = predictor.predict_proba(inputs).numpy()
        assert probabilities.shape == (size, 7)
        assert np.abs(probabilities - expected).max() <= 1e-5
        np.testing.assert_allclose(1 / (1 + np.exp(-logits)), expected, atol=1e-5)
    assert expected.std(axis=0).min() > 1e-4  # which outputs that ignore the inputs would not have


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_torch_export_keeps_probabilities_too(name, tmp_path):
    file = model_file(name, tmp_path)
    assert export_model(file, tmp_path / "m.pt2").difference <= 1e-6
    extra = {"metadata.json": ""}
    module = torch.export.load(tmp_path / "m.pt2", extra_files=extra).module()
    predictor = Predictor.load(file)
    for size in SIZES:
        inputs = torch.randn(size, *predictor.description.shape)
        torch.testing.assert_close(
            module(inputs)[0], predictor.predict_proba(inputs), atol=1e-6, rtol=0, check_stride=False
        )
    about = json.loads(extra["metadata.json"])
    assert about["classes"] == list("abcdefg")
    assert about["thresholds"] == pytest.approx([0.4] * 7)


def test_a_run_in_onnx_with_all_that_its_outputs_mean(digits_run, tmp_path, capfd):
    export_model(digits_run, tmp_path / "digits.onnx")
    assert capfd.readouterr() == ("", "")
    session = onnx_session(tmp_path / "digits.onnx")
    inputs, _ = load("digits").test.batch(torch.arange(100))
    (probabilities,) = session.run(["probabilities"], {"inputs": inputs.contiguous().numpy()})
    logits = Run(digits_run).predictions()["test_logits"][:100]
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-logits)), atol=1e-5)

    about = session.get_modelmeta().custom_metadata_map
    description = Predictor.load(digits_run).description
    assert about["tailmask_version"] == __version__
    assert json.loads(about["classes"]) == list("0123456789")
    assert json.loads(about["thresholds"]) == list(description.thresholds)
    assert json.loads(about["prior_shift"]) == list(description.prior_shift)
    assert json.loads(about["encoder"])["mean"] == description.encoder["mean"]
    assert json.loads(about["shape"]) == [1, 12, 12]
    assert list(json.loads(about["outputs"])) == [output.name for output in session.get_outputs()]
    assert (about["method"], about["activation"]) == ("plm", "sigmoid")


def test_a_fit_of_one_network_is_exported_like_its_best_run(digits_run, tmp_path):
    shutil.copytree(digits_run, tmp_path / "fit" / "best")
    (tmp_path / "fit" / "fit.json").write_text('{"decide": "top=3"}')
    export_model(tmp_path / "fit", tmp_path / "m.onnx")
    about = onnx_session(tmp_path / "m.onnx").get_modelmeta().custom_metadata_map
    assert (about["method"], about["thresholds"], about["top"]) == ("plm", "null", "3")


def test_scaled_cosines_in_onnx(single_run, tmp_path):
    export_model(single_run, tmp_path / "m.onnx")
    inputs = torch.randn(9, 5)
    session = onnx_session(tmp_path / "m.onnx")
    (probabilities,) = session.run(["probabilities"], {"inputs": inputs.numpy()})
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(probabilities, Predictor.load(single_run).predict_proba(inputs), atol=1e-5)
    about = session.get_modelmeta().custom_metadata_map
    assert (about["activation"], about["thresholds"], about["single_label"]) == ("softmax", "null", "true")


def test_safetensors_rebuild_the_network(digits_run, tmp_path):
    exported = export_model(digits_run, tmp_path / "m.safetensors")
    assert exported.files == (tmp_path / "m.safetensors", tmp_path / "m.json")
    architecture = json.loads((tmp_path / "m.json").read_text())
    network = build_model(**architecture["build_model"])
    network.load_state_dict(load_file(tmp_path / "m.safetensors"))
    inputs = torch.randn(5, 1, 12, 12)
    predictor = Predictor.load(digits_run)
    logits = network.eval()(inputs) * architecture["logit_scale"]
    torch.testing.assert_close(predictor.predict_proba(inputs), logits.sigmoid().detach(), check_stride=False)
    assert architecture["classes"] == list("0123456789")
    assert Predictor.load(tmp_path / "m.safetensors").description == predictor.description


@pytest.mark.parametrize("name", ["m.onnx", "m.pt2", "m.safetensors", "m.json"])
def test_files_that_are_there_stay(name, tmp_path):
    run = random_model(tmp_path / "run.safetensors")
    target = tmp_path / name.replace(".json", ".safetensors")
    (tmp_path / name).write_text("old")
    with pytest.raises(UserError, match=f"{name} already exists: .*--force"):
        export_model(run, target)
    assert (tmp_path / name).read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "run.safetensors"])
    assert export_model(run, target, force=True).files[0] == target
    assert not (tmp_path / name).read_bytes().startswith(b"old")


def test_an_unknown_ending(tmp_path):
    with pytest.raises(UserError, match=r"must end with \.onnx or \.pt2 or \.safetensors"):
        export_model(random_model(tmp_path / "run.safetensors"), tmp_path / "m.pt")


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_extra_is_named(package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"needs the package '{package}'.*pip install 'tailmask\[export\]'"):
        export_model(random_model(tmp_path / "run.safetensors"), tmp_path / "m.onnx")
    assert export_model(tmp_path / "run.safetensors", tmp_path / "m.safetensors").difference is None


class Undecided(nn.Module):
    """Does one thing or another by the values of its inputs, which no exported program can."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, inputs):
        return self.linear(inputs if inputs.sum() > 0 else -inputs)


def undecided(*, shape, num_classes):
    return Undecided()


class OnlyPairs(nn.Module):
    """Takes batches of two alone."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, inputs):
        return self.linear(inputs.reshape(6)).reshape(2, 2)


def only_pairs(*, shape, num_classes):
    return OnlyPairs()


@pytest.mark.parametrize("factory", ["undecided", "only_pairs"])
@pytest.mark.parametrize("name", ["m.onnx", "m.pt2"])
def test_a_network_that_cannot_be_exported(factory, name, tmp_path, capfd):
    model = f"{__name__}:{factory}"
    file = random_model(tmp_path / "own.safetensors", model={"name": model})
    with pytest.raises(UserError, match="the network cannot be exported to") as caught:
        export_model(file, tmp_path / name, model=model)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["own.safetensors"]


class OtherWhenExported(nn.Module):
    """Gives every row after a batch's first a probability of 0.51 in an exported program, else of 0.5."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, inputs):
        logits = self.scale * inputs[:, :2]
        if torch.compiler.is_compiling():
            logits = logits + 0.04 * (torch.arange(inputs.shape[0]) > 0)[:, None]
        return logits


def other_when_exported(*, shape, num_classes):
    return OtherWhenExported()


@pytest.mark.parametrize("name", ["m.onnx", "m.pt2"])
def test_a_program_that_differs_is_not_written(name, tmp_path):
    model = f"{__name__}:other_when_exported"
    file = random_model(tmp_path / "own.safetensors", model={"name": model})
    with pytest.raises(UserError, match=rf"{name} is not written: .* differ from the model's by 0\.01"):
        export_model(file, tmp_path / name, model=model)
    assert [path.name for path in tmp_path.iterdir()] == ["own.safetensors"]
