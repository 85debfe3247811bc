"""Features of a backbone are those that the library itself gives, one sample at a time."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("transformers")

from transformers import AutoImageProcessor, AutoModel, AutoTokenizer, SiglipVisionModel

from backbones.tiny_models import IMAGES, TEXTS, save_model, tokenizer
from tailmask._util.messages import UserError
from tailmask.backbones.backbone import BackboneChoice, open_backbone

SENTENCES = ["the cat sat on a mat", "a dog", "", "the red dog ran far and the blue cat sat on the green mat"]


def pictures():
    rng = np.random.default_rng(0)
    sizes = [(40, 30), (32, 32), (20, 60)]
    return [Image.fromarray(rng.integers(256, size=(h, w, 3), dtype=np.uint8)) for w, h in sizes]


def features(folder, kind, samples, **options):
    return open_backbone(BackboneChoice(f"hf:{folder}", kind, **options)).features(samples)


@torch.inference_mode()
def own_image_features(name, folder, images):
    """What the documents of each family call its features, by direct calls of the library."""
    network = (SiglipVisionModel if name == "siglip" else AutoModel).from_pretrained(folder).eval()
    processor = AutoImageProcessor.from_pretrained(folder)
    found = []
    for image in images:
        outputs = network(**processor(image, return_tensors="pt"))
        found.append(outputs.last_hidden_state[:, 0] if name == "vit" else outputs.pooler_output.flatten(1))
    return torch.cat(found).numpy()


@torch.inference_mode()
def own_text_features(folder, texts):
    network, words = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    states = [network(**words(text, return_tensors="pt")).last_hidden_state for text in texts]
    return torch.cat([state.mean(dim=1) for state in states]).numpy()


@pytest.mark.parametrize("name", IMAGES)
def test_image_features_are_the_librarys(name, model_folder):
    folder, images = model_folder(name), pictures()
    found = features(folder, "images", images)
    assert found.shape == (3, 16)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, own_image_features(name, folder, images), atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 1e-3


@pytest.mark.parametrize("name", TEXTS)
def test_text_features_are_the_librarys_without_padding(name, model_folder):
    folder = model_folder(name)
    np.testing.assert_allclose(
        features(folder, "texts", SENTENCES), own_text_features(folder, SENTENCES), atol=1e-5
    )


def test_flips_are_the_mean_of_both_images(model_folder):
    folder, images = model_folder("vit"), pictures()
    mirrored = [image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for image in images]
    expected = (features(folder, "images", images) + features(folder, "images", mirrored)) / 2
    np.testing.assert_allclose(features(folder, "images", images, flips=True), expected, atol=1e-4)


@torch.inference_mode()
def test_pooling_by_choice(model_folder):
    folder, images = model_folder("dinov2"), pictures()[:1]
    pixels = AutoImageProcessor.from_pretrained(folder)(images, return_tensors="pt")
    outputs = AutoModel.from_pretrained(folder).eval()(**pixels)
    expected = outputs.last_hidden_state[:, 1:].mean(dim=1).numpy()
    np.testing.assert_allclose(features(folder, "images", images, pooling="mean"), expected, atol=1e-5)
    with pytest.raises(UserError, match="no CLS token"):
        features(model_folder("convnext"), "images", images, pooling="cls")


def test_a_sentence_transformers_folder_says_how_to_pool(tmp_path):
    folder = save_model("bert", tmp_path)
    plain = own_text_features(folder, SENTENCES)
    parts = ["Transformer", "Pooling", "Normalize"]
    modules = [
        {"type": f"sentence_transformers.models.{name}", "path": f"{n}_{name}"}
        for n, name in enumerate(parts)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    expected = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(features(folder, "texts", SENTENCES), expected, atol=1e-5)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 4}))
    short = own_text_features(folder, ["the cat"])
    expected = short / np.linalg.norm(short, axis=1, keepdims=True)
    np.testing.assert_allclose(features(folder, "texts", ["the cat sat on a mat"]), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_long_texts_are_cut_to_the_positions_of_the_model(name, model_folder):
    positions = 40 if name == "bert" else 38
    long = " ".join(["the cat sat on a mat"] * 30)
    cut = " ".join(long.split()[: positions - 2])
    found = features(model_folder(name), "texts", [long, cut])
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_the_digest_knows_weights_preprocessing_and_options(tmp_path):
    folder = save_model("vit", tmp_path)

    def digest(**options):
        return open_backbone(BackboneChoice(f"hf:{folder}", "images", **options)).digest

    first = digest()
    assert first == digest() != digest(flips=True)
    config = folder / "preprocessor_config.json"
    config.write_text(config.read_text().replace("0.4", "0.45"))
    assert digest() != first


def broken_weights(folder):
    (folder / "model.safetensors").write_bytes(b"\0" * 100)


def broken_config(folder):
    (folder / "config.json").write_text("{")


def other_config(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))


def no_config(folder):
    (folder / "config.json").unlink()


def no_weights(folder):
    (folder / "model.safetensors").unlink()


def pickled_weights(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def no_processor(folder):
    (folder / "preprocessor_config.json").unlink()


def own_code(folder):
    config = json.loads((folder / "config.json").read_text())
    code = {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "mine", "auto_map": code}))
    (folder / "mine.py").write_text("raise RuntimeError('this code must not run')")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (broken_weights, "cannot be read as a model"),
        (broken_config, "cannot be read as a model"),
        (other_config, "config.json: .* is missing, and 15 more"),
        (no_config, "has no config.json"),
        (no_weights, "has no model.safetensors"),
        (pickled_weights, "pytorch_model.bin, and pickles are not read"),
        (no_processor, r"cannot be read as an image processor \(preprocessor_config.json\)"),
        (own_code, "needs its own code, which is not run"),
    ],
)
def test_a_damaged_folder_gets_one_sentence(damage, sentence, tmp_path):
    folder = save_model("vit", tmp_path)
    damage(folder)
    with pytest.raises(UserError, match=sentence) as error:
        features(folder, "images", pictures())
    assert "\n" not in str(error.value)


def test_a_model_of_the_wrong_kind_gets_one_sentence(model_folder):
    with pytest.raises(UserError, match="is a bert model, which takes texts, but the data are images"):
        features(model_folder("bert"), "images", pictures())
    with pytest.raises(UserError, match="is a vit model, which takes images, but the data are texts"):
        features(model_folder("vit"), "texts", SENTENCES)


def test_a_tokenizer_without_padding_gets_one_sentence(tmp_path):
    folder = save_model("bert", tmp_path)
    tokenizer(pad_token=None).save_pretrained(folder)
    with pytest.raises(UserError, match="no padding token"):
        features(folder, "texts", SENTENCES)


def test_a_name_that_is_not_here_says_what_to_download(tmp_path, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="`hf download nobody/nothing --local-dir FOLDER`"):
        open_backbone(BackboneChoice("hf:nobody/nothing", "images"))
    with pytest.raises(UserError, match=r"there is no folder '\./missing'"):
        open_backbone(BackboneChoice("hf:./missing", "images"))
    file = tmp_path / "model.safetensors"
    file.touch()
    with pytest.raises(UserError, match="must be a folder"):
        open_backbone(BackboneChoice(f"hf:{file}", "images"))


def test_a_missing_extra_gets_one_sentence(model_folder, monkeypatch):
    import sys

    folder = model_folder("vit")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match=r"pip install 'tailmask\[hf\]'"):
        features(folder, "images", pictures())
