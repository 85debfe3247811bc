"""A user's mistake with a pretrained model is one sentence and exit code 2, frozen or fine-tuned."""

from __future__ import annotations

import shutil
import sys

import polars as pl
import pytest

from data.drawn_images import draw

pytest.importorskip("transformers")

from tailmask.cli import main

TEXTS = ["texts.csv", "--labels", "tag", "--text", "text"]
IMAGES = ["photos.csv", "--labels", "tag"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"text": [f"the cat {i}" for i in range(20)], "tag": [0, 1] * 10}).write_csv("texts.csv")
    names = draw(tmp_path / "photos", 20)
    pl.DataFrame({"path": [f"photos/{n}" for n in names], "tag": [0, 1] * 10}).write_csv("photos.csv")


@pytest.fixture(params=[(), ("--finetune", "--epochs", "1")], ids=["frozen", "fine-tuned"])
def refused(request, tmp_path, capsys):
    """The sentence that a command is refused with."""

    def sentence(*arguments):
        capsys.readouterr()
        assert main(["train", *map(str, arguments), *request.param, "-o", "run"]) == 2
        assert not (tmp_path / "run" / "metrics.json").exists()
        error = capsys.readouterr().err
        assert "Traceback" not in error
        [found] = [line for line in error.splitlines() if line.startswith("tailmask: ")]
        return found

    return sentence


def cut(path):
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("model.safetensors", cut),
        ("config.json", cut),
        ("config.json", lambda path: path.unlink()),
        ("model.safetensors", lambda path: path.unlink()),
    ],
)
@pytest.mark.parametrize(("name", "data"), [("bert", TEXTS), ("vit", IMAGES)])
def test_a_corrupt_folder(name, data, file, damage, model_folder, refused, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(model_folder(name), folder)
    damage(folder / file)
    assert str(folder) in refused(*data, "--model", f"hf:{folder}")


def test_a_model_without_a_tokenizer_or_processor(model_folder, refused, tmp_path):
    for name, data, files in (
        ("bert", TEXTS, ["tokenizer.json", "tokenizer_config.json"]),
        ("vit", IMAGES, ["preprocessor_config.json"]),
    ):
        folder = tmp_path / name
        shutil.copytree(model_folder(name), folder)
        for file in files:
            (folder / file).unlink()
        assert str(folder) in refused(*data, "--model", f"hf:{folder}")


def test_a_model_of_the_other_kind(model_folder, refused):
    assert "choose a model for images" in refused(*IMAGES, "--model", f"hf:{model_folder('bert')}")
    assert "choose a model for texts" in refused(*TEXTS, "--model", f"hf:{model_folder('vit')}")


def test_a_file_that_is_no_image(model_folder, refused, tmp_path):
    for path in (tmp_path / "photos").iterdir():
        path.write_text("no image")
    assert "cannot be decoded as an image" in refused(*IMAGES, "--model", f"hf:{model_folder('vit')}")


def test_a_name_that_is_not_in_the_cache(refused, monkeypatch, tmp_path):
    hub = pytest.importorskip("huggingface_hub")

    def offline(*_, **__):
        raise OSError("offline")

    monkeypatch.setattr(hub, "snapshot_download", offline)
    for data in (TEXTS, IMAGES):
        assert "hf download someone/model" in refused(*data, "--model", "hf:someone/model")


@pytest.mark.parametrize(("name", "data"), [("bert", TEXTS), ("vit", IMAGES)])
def test_a_missing_extra(name, data, model_folder, refused, monkeypatch):
    folder = model_folder(name)
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "pip install 'tailmask[hf]'" in refused(*data, "--model", f"hf:{folder}")
