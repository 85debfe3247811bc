"""Pretrained text models that are trained as a whole: tokens, rates, resuming, and runs that stand alone."""

from __future__ import annotations

import shutil

import numpy as np
import polars as pl
import pytest
import torch

pytest.importorskip("transformers")

from backbones.interrupted_runs import resumes_to_the_same_weights
from backbones.tiny_models import TEXTS, WORDS, save_model
from tailmask.cli import main
from tailmask.data import DataOptions, load
from tailmask.data.encoders.encoder import Encoder
from tailmask.inference import Predictor
from tailmask.models import build_model
from tailmask.models.last_layer import last_parameters
from tailmask.runs import configure
from tailmask.runs.reader import Run
from tailmask.training.run_parts import build_parts
from tailmask.training.with_lightning.lightning_module import build_optimizer

SHORT = ["--epochs", "1", "--set", "schedule.batch_size=8", "--method", "plm"]
TAGS = ["tag_cat", "tag_red"]


@pytest.fixture(autouse=True)
def texts(tmp_path, monkeypatch):
    """Forty texts of 1 to 60 words, longer than the models take."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    texts = [" ".join(rng.choice(WORDS[4:], size)) for size in rng.integers(1, 60, size=40)]
    rows = {"id": [f"r{i}" for i in range(40)], "text": texts}
    rows |= {"tag_cat": [int("cat" in text.split()) for text in texts], "tag_red": [0, 1] * 20}
    pl.DataFrame(rows).write_csv("tickets.csv")
    return texts


def command(folder, *others):
    data = ["tickets.csv", "--labels", "tag_*", "--text", "text"]
    return ["train", *data, "--model", f"hf:{folder}", "--finetune", *SHORT, *map(str, others)]


def options(folder, **others):
    return DataOptions(labels="tag_*", text="text", backbone=f"hf:{folder}", finetune=True, **others)


def build(folder, **others):
    return build_model("backbone", shape=(2, 40), num_classes=2, backbone=f"hf:{folder}", **others).eval()


@pytest.mark.parametrize("name", [*TEXTS, "t5"])
def test_a_run_stands_alone_without_the_folder_of_its_model(name, tmp_path):
    folder = save_model(name, tmp_path / "model")
    assert main(command(folder, "-o", "run")) == 0
    shutil.rmtree(folder)
    assert main(["predict", "run", "tickets.csv", "-o", "out.csv", "--id", "id"]) == 0
    table = pl.read_csv("out.csv")
    assert table["id"].to_list() == [f"r{i}" for i in range(40)]
    # What predict says of the test rows is what training recorded.
    run = Run(tmp_path / "run").predictions()
    rows = table[(run["test_rows"] - 1).tolist()].select(TAGS).to_numpy()
    np.testing.assert_allclose(rows, 1 / (1 + np.exp(-run["test_logits"])), atol=1e-5)


@pytest.mark.parametrize("name", TEXTS)
def test_tokens_are_those_of_the_tokenizer(name, model_folder, texts):
    from transformers import AutoTokenizer

    folder = model_folder(name)
    dataset = load("tickets.csv", options(folder))
    length = dataset.shape[1]
    assert length == (38 if name == "roberta" else 40)  # RoBERTa's positions start at two
    numbers = torch.arange(len(dataset.train))
    own = AutoTokenizer.from_pretrained(folder)
    expected = own(
        [texts[row - 1] for row in dataset.row_numbers["train"]],
        padding="max_length",
        truncation=True,
        max_length=length,
        return_tensors="pt",
    )
    inputs, _ = dataset.train.batch(numbers)
    assert torch.equal(inputs[:, 0].long(), expected["input_ids"])
    assert torch.equal(inputs[:, 1].long(), expected["attention_mask"])
    stored = Encoder.from_json(dataset.encoder.to_json())
    assert stored == dataset.encoder


@pytest.mark.parametrize("name", TEXTS)
def test_training_starts_from_the_models_features(name, model_folder, texts):
    from tailmask.backbones.backbone import BackboneChoice, open_backbone

    folder = model_folder(name)
    encoder = load("tickets.csv", options(folder)).encoder
    expected = open_backbone(BackboneChoice(f"hf:{folder}", "texts")).features(texts)
    found = build(folder).features(encoder.encode(texts)).detach()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_pooling_of_the_folder_is_stored(tmp_path, texts):
    folder = save_model("bert", tmp_path / "model")
    (folder / "modules.json").write_text(
        '[{"type": "sentence_transformers.models.Transformer", "path": ""},'
        ' {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]'
    )
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 7}')
    assert main(command(folder, "-o", "run")) == 0
    predictor = Predictor.load("run")
    assert predictor.description.model["pooling"] == "cls"
    assert predictor.encoder.shape == (2, 7)
    body = predictor.classifier.network.body
    inputs = predictor.encoder.encode(texts[:3])
    with torch.no_grad():
        hidden = body(input_ids=inputs[:, 0].long(), attention_mask=inputs[:, 1].long()).last_hidden_state
        expected = predictor.classifier.network.head(hidden[:, 0])
    torch.testing.assert_close(predictor.outputs(inputs)[1], expected, atol=1e-5, rtol=0)


def test_padding_does_not_change_the_logits(model_folder, texts):
    folder = model_folder("bert")
    encoder, network = load("tickets.csv", options(folder)).encoder, build(folder)
    with torch.no_grad():
        together = network(encoder.encode(texts[:8]))
        alone = torch.cat([network(encoder.encode([text])) for text in texts[:8]])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)


def test_head_and_body_have_the_rates_of_the_recipe_for_texts(model_folder):
    config = configure("tickets.csv", options=options(model_folder("bert")))
    assert config.recipe.optimizer.body_lr == 5e-5
    parts = build_parts(config, load("tickets.csv", config.options))
    groups = build_optimizer(parts.network, config.recipe.optimizer).param_groups
    rates = {id(parameter): group["base_lr"] for group in groups for parameter in group["params"]}
    head = {id(parameter) for parameter in last_parameters(parts.network)}
    assert {rate for key, rate in rates.items() if key in head} == {1e-3}
    assert {rate for key, rate in rates.items() if key not in head} == {5e-5}


def test_depth_is_frozen_from_the_inputs_on(model_folder):
    network = build(model_folder("bert"), freeze=0.5)
    trained = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    assert not [name for name in trained if "embeddings" in name or "layer.0." in name or "pooler" in name]
    assert [name for name in trained if "layer.1." in name]


def test_an_interrupted_run_resumes_to_the_same_weights(model_folder):
    fields = ["schedule.batch_size=8"]
    config = configure("tickets.csv", options=options(model_folder("bert")), epochs=2, fields=fields)
    assert resumes_to_the_same_weights(config)


def test_thresholds_are_tuned_and_a_word_is_learned(model_folder, texts):
    train = command(model_folder("bert"), "--validation", "0.2", "-o", "run")
    train[train.index("--epochs") + 1] = "12"
    train[train.index("--set") + 1 : train.index("--set") + 2] = [
        "schedule.batch_size=4",
        "optimizer.body_lr=5e-3",
        "optimizer.lr=1e-2",
    ]
    assert main(train) == 0
    predictor = Predictor.load("run")
    assert predictor.decision.decided_by == "tuned"
    history = Run("run").history
    assert history[-1]["loss"] < history[0]["loss"]


def test_bf16_and_accumulation_train(model_folder):
    train = command(model_folder("bert"), "--precision", "bf16", "-o", "run")
    train.insert(train.index("--set") + 2, "schedule.accumulate=2")
    assert main(train) == 0


def test_compare_fine_tunes_texts(model_folder, capsys):
    data = ["tickets.csv", "--labels", "tag_*", "--text", "text"]
    model = ["--model", f"hf:{model_folder('bert')}", "--finetune", "--epochs", "1"]
    assert main(["compare", *data, *model, "--methods", "bce", "plm", "--seeds", "1", "-o", "study"]) == 0
    assert main(["predict", "study", "tickets.csv", "-o", "out.csv"]) == 0


def test_mistakes_get_one_sentence(model_folder, capsys):
    bert = model_folder("bert")
    pl.DataFrame({"a": [1.0, 2.0] * 10, "tag": [0, 1] * 10}).write_csv("numbers.csv")
    numbers = ["train", "numbers.csv", "--labels", "tag", "--model", f"hf:{bert}", "--finetune"]
    for arguments, sentence in [
        (command(model_folder("vit"), "-o", "run"), "choose a model for texts"),
        (command(bert, "--flips", "-o", "run"), "leave out --flips"),
        (command(bert, "--folds", "3", "-o", "run"), "--folds is for tables"),
        (numbers, "has no column of words"),
    ]:
        assert main(arguments) == 2
        assert sentence in capsys.readouterr().err
    assert main(command(bert, "-o", "run")) == 0
    assert main(["predict", "run", "numbers.csv", "-o", "out.csv"]) == 2
    assert "text" in capsys.readouterr().err


def test_a_damaged_tokenizer_is_one_sentence(model_folder):
    from tailmask._util.messages import UserError

    stored = load("tickets.csv", options(model_folder("bert"))).encoder.to_json()
    for change in ({"tokenizer": "{}"}, {"length": 10**9}, {"padding": "0"}, {"texts": 1}):
        with pytest.raises(UserError, match="the stored encoder of kind 'tokens' is damaged"):
            Encoder.from_json(stored | change)


@pytest.mark.parametrize("name", [*TEXTS, "t5"])
def test_the_whole_network_is_exported_to_onnx(name, model_folder, texts, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    import json

    from tokenizers import Tokenizer

    assert main(command(model_folder(name), "-o", "run")) == 0
    assert main(["export", "run", "--format", "onnx", "-o", "model.onnx"]) == 0
    assert "the tokenizer in the metadata" in capsys.readouterr().out
    assert main(["predict", "run", "tickets.csv", "-o", "out.csv"]) == 0

    session = onnxruntime.InferenceSession("model.onnx")
    encoder = json.loads(session.get_modelmeta().custom_metadata_map["encoder"])
    tokenizer = Tokenizer.from_str(encoder["tokenizer"])
    tokenizer.enable_padding(pad_id=encoder["padding"])
    encoded = tokenizer.encode_batch(texts)
    inputs = {
        "input_ids": np.array([each.ids for each in encoded]),
        "attention_mask": np.array([each.attention_mask for each in encoded]),
    }
    found = session.run(["probabilities"], inputs)[0]
    np.testing.assert_allclose(found, pl.read_csv("out.csv").select(TAGS).to_numpy(), atol=1e-4)
    assert main(["export", "run", "-o", "model.pt2", "--format", "torch-export"]) == 0
