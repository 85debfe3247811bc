"""Pretrained models that are trained as a whole: what trains at which rate, and runs that stand alone."""

from __future__ import annotations

import shutil

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

from data.drawn_images import draw

pytest.importorskip("transformers")

from backbones.interrupted_runs import resumes_to_the_same_weights
from backbones.tiny_models import IMAGES, save_model
from tailmask.cli import main
from tailmask.data import DataOptions, load
from tailmask.inference import Predictor
from tailmask.models import build_model
from tailmask.models.last_layer import last_parameters
from tailmask.runs import configure
from tailmask.runs.recipe import OptimizerRecipe, load_recipe
from tailmask.training.run_parts import build_parts
from tailmask.training.with_lightning.lightning_module import build_optimizer

SHORT = ["--epochs", "1", "--set", "schedule.batch_size=8", "--method", "plm"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = draw(tmp_path / "photos", 20)
    rows = {"path": [f"photos/{name}" for name in names], "a": [0, 1] * 10, "b": [0, 0, 1, 1] * 5}
    pl.DataFrame(rows).write_csv("photos.csv")


def command(folder, *others):
    return [
        "train",
        "photos.csv",
        "--labels",
        "a,b",
        "--model",
        f"hf:{folder}",
        "--finetune",
        *SHORT,
        *others,
    ]


def build(folder, **options):
    return build_model("backbone", shape=(3, 32, 32), num_classes=2, backbone=f"hf:{folder}", **options)


@pytest.mark.parametrize("name", IMAGES)
def test_a_run_stands_alone_without_the_folder_of_its_model(name, tmp_path):
    folder = save_model(name, tmp_path / "model")
    assert main(command(folder, "-o", "run")) == 0
    shutil.rmtree(folder)
    assert main(["predict", "run", "photos", "-o", "out.csv"]) == 0
    assert pl.read_csv("out.csv").height == 20


@pytest.mark.parametrize("name", ["vit", "resnet"])
def test_the_whole_network_is_exported_to_onnx(name, tmp_path, model_folder):
    assert main(command(model_folder(name), "-o", "run")) == 0
    assert main(["export", "run", "--format", "onnx", "-o", "model.onnx"]) == 0


@pytest.mark.parametrize("name", IMAGES)
def test_images_come_in_the_size_and_with_the_moments_of_the_processor(name, model_folder):
    options = DataOptions(labels="a,b", backbone=f"hf:{model_folder(name)}", finetune=True)
    dataset = load("photos.csv", options)
    assert dataset.shape == (3, 32, 32)
    assert dataset.encoder.mean == (0.4, 0.5, 0.6)
    assert dataset.encoder.std == (0.2, 0.3, 0.25)


def test_training_starts_from_the_models_features(model_folder, tmp_path):
    from PIL import Image

    from tailmask.backbones.backbone import BackboneChoice, open_backbone

    folder = model_folder("swin")
    image = Image.fromarray(np.random.default_rng(0).integers(256, size=(32, 32, 3), dtype=np.uint8))
    image.save("square.png")
    options = DataOptions(labels="a,b", backbone=f"hf:{folder}", finetune=True)
    inputs = next(load("photos.csv", options).encoder.batches(tmp_path / "square.png", 1))
    expected = open_backbone(BackboneChoice(f"hf:{folder}", "images")).features([image])
    found = build(folder).eval().features(inputs).detach()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_depth_is_frozen_from_the_inputs_on(model_folder):
    network = build(model_folder("vit"), freeze=0.5)
    trained = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    assert not [name for name in trained if "embeddings" in name or ".0." in name]
    assert [name for name in trained if ".1." in name]
    assert {"head.weight", "head.bias"} <= trained
    assert not [name for name in trained if "pooler" in name]  # which the logits do not depend on
    alone = build(model_folder("vit"), freeze=1.0)
    assert {n for n, p in alone.named_parameters() if p.requires_grad} == {"head.weight", "head.bias"}


def test_batch_normalisation_stays_as_it_was_learned(model_folder):
    images = torch.randn(4, 3, 32, 32)
    for fixed in (True, False):
        network = build(model_folder("resnet"), fixed_norm=fixed).train()
        before = {name: value.clone() for name, value in network.named_buffers() if "running" in name}
        network(images)
        same = all(torch.equal(value, before[n]) for n, value in network.named_buffers() if n in before)
        assert before
        assert same is fixed


def test_head_and_body_have_rates_of_their_own(model_folder):
    network = build(model_folder("vit"), freeze=0.5)
    recipe = OptimizerRecipe(lr=1e-2, name="adamw", body_lr=1e-4, decay_last_bias=False, weight_decay=0.1)
    groups = build_optimizer(network, recipe).param_groups
    rates = {id(parameter): group["base_lr"] for group in groups for parameter in group["params"]}
    head = {id(parameter) for parameter in last_parameters(network)}
    assert {rate for key, rate in rates.items() if key in head} == {1e-2}
    assert {rate for key, rate in rates.items() if key not in head} == {1e-4}
    assert rates.keys() == {id(p) for p in network.parameters() if p.requires_grad}
    assert [group["weight_decay"] for group in groups if group["params"][0] is network.head.bias] == [0.0]


def test_an_interrupted_run_resumes_to_the_same_weights(model_folder):
    options = DataOptions(labels="a,b", backbone=f"hf:{model_folder('convnext')}", finetune=True)
    config = configure("photos.csv", options=options, epochs=2, fields=["schedule.batch_size=8"])
    assert resumes_to_the_same_weights(config)


def test_clipping_and_accumulation_train(model_folder):
    fields = ["--set", "schedule.batch_size=4", "schedule.accumulate=2", "optimizer.clip=0.1"]
    train = [*command(model_folder("resnet"))[:-2], *fields[1:], "--method", "bce"]
    assert main([*train, "-o", "run"]) == 0
    assert main([*train[:-2], "--method", "plm", "--precision", "bf16", "-o", "bf16"]) == 0


def test_own_networks_on_own_images_get_the_recipe_that_does_not_ruin_them(tmp_path, monkeypatch):
    (tmp_path / "own_net.py").write_text(
        "from torch import nn\n"
        "def build(shape, num_classes):\n"
        "    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, num_classes))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = DataOptions(labels="a,b", image_size=16)
    own = configure("photos.csv", options=options, fields=["model.name=own_net:build"]).recipe
    assert own.optimizer == load_recipe("finetune").optimizer
    assert configure("photos.csv", options=options).recipe.optimizer == load_recipe("images").optimizer
    parts = build_parts(
        configure("photos.csv", options=options, fields=["model.name=own_net:build"]),
        load("photos.csv", options),
    )
    assert isinstance(parts.network, nn.Sequential)


def test_modules_of_ones_own_network_stay_in_evaluation_mode(tmp_path, monkeypatch):
    (tmp_path / "own_norm.py").write_text(
        "from torch import nn\n"
        "def build(shape, num_classes):\n"
        "    layers = [nn.BatchNorm2d(3).eval(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(3)]\n"
        "    return nn.Sequential(*layers, nn.Linear(3, num_classes))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    train = ["train", "photos.csv", "--labels", "a,b", "--image-size", "16", "--epochs", "2"]
    train += ["--model", "own_norm:build", "--set", "model.fixed_norm=false"]
    assert main([*train, "-o", "run"]) == 0
    state = Predictor.load("run", model="own_norm:build").classifier.network.state_dict()
    assert state["0.num_batches_tracked"] == 0
    assert state["3.num_batches_tracked"] > 0


def test_mistakes_get_one_sentence(model_folder, capsys):
    vit = model_folder("vit")
    for arguments, sentence in [
        (command(vit, "--image-size", "48", "-o", "run"), "cannot take inputs of shape (3, 48, 48)"),
        (command(model_folder("bert"), "-o", "run"), "choose a model for images"),
        (command(vit, "-o", "run", "--flips"), "leave out --flips"),
        (command(vit, "-o", "run", "--pooling", "pooler"), None),
        (["train", "photos.csv", "--labels", "a,b", "--recipe", "finetune", "-o", "x"], "--finetune"),
        (["train", "photos.csv", "--labels", "a,b", "--finetune", "-o", "x"], "--model hf:NAME_OR_FOLDER"),
        (["train", "photos.csv", "--labels", "a,b", "--finetune", "--encoder", "a:b", "-o", "x"], "--model"),
    ]:
        code = main(arguments)
        assert code == (0 if sentence is None else 2)
        assert sentence is None or sentence in capsys.readouterr().err
