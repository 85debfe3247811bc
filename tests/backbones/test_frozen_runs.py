"""From raw images and texts to a trained model and back, through a frozen backbone."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from sklearn.feature_extraction.text import TfidfVectorizer

from data.drawn_images import CLASSES, draw

pytest.importorskip("transformers")

from backbones.tiny_models import save_model
from tailmask._util.messages import UserError
from tailmask.backbones.backbone import BackboneChoice, open_backbone
from tailmask.cli import main
from tailmask.data import DataOptions, load
from tailmask.data.row_formats import format_from_json
from tailmask.inference import Predictor
from tailmask.learners.matrix.forest import ForestLearner
from tailmask.learners.matrix.linear import LinearLearner
from tailmask.learners.matrix.row_encoders import fit_encoder
from tailmask.runs.reader import Run

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", "far", "red", "blue", "green"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_images(folder, number=24):
    names = draw(folder / "photos", number)
    rng = np.random.default_rng(1)
    with (folder / "photos.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", *CLASSES])
        for i, name in enumerate(names):
            writer.writerow([f"photos/{name}", *(int(i % 3 == c) for c in range(3))])
    return rng


def write_texts(folder, number=40):
    rng = np.random.default_rng(2)
    rows = []
    for i in range(number):
        words = [*rng.choice(WORDS, 5).tolist(), str(i)]
        rows.append(
            {"id": f"r{i}", "text": " ".join(words), "tag_cat": int("cat" in words), "tag_red": i % 2}
        )
    pl.DataFrame(rows).write_csv(folder / "tickets.csv")
    return [row["text"] for row in rows]


def texts_options(folder, **others):
    return DataOptions(labels="tag_*", text="text", backbone=f"hf:{folder}", **others)


def run(*arguments):
    return main([str(argument) for argument in arguments])


def test_texts_from_csv_to_predictions(tmp_path, model_folder, capsys):
    texts, bert = write_texts(tmp_path), model_folder("bert")
    command = ["tickets.csv", "--labels", "tag_*", "--text", "text", "--model", f"hf:{bert}"]
    assert run("train", *command, "--method", "bce", "--epochs", 2, "--folds", 1, "-o", "run") == 0
    assert "inputs are 16 features of hf:bert0, which is not trained" in capsys.readouterr().err
    dataset = load("tickets.csv", texts_options(bert))
    assert dataset.shape == (16,)

    # New rows in another file get the same features as in training.
    pl.DataFrame({"id": ["a", "b"], "text": texts[:2]}).write_csv("new.csv")
    assert run("predict", "run", "new.csv", "-o", "out.csv", "--id", "id") == 0
    table = pl.read_csv("out.csv")
    assert table["id"].to_list() == ["a", "b"]
    features = open_backbone(BackboneChoice(f"hf:{bert}", "texts")).features(texts[:2])
    predictor = Predictor.load("run")
    expected = predictor.predict_proba(predictor.encoder.scaled(features))
    np.testing.assert_allclose(table["tag_cat"].to_numpy(), expected[:, 0].numpy(), atol=1e-5)


def test_images_from_a_list_and_a_folder(tmp_path, model_folder):
    write_images(tmp_path)
    resnet = model_folder("resnet")
    labels = ",".join(CLASSES)
    command = ["photos.csv", "--labels", labels, "--model", f"hf:{resnet}", "--flips", "--method", "plm"]
    assert run("train", *command, "--epochs", 2, "-o", "run") == 0
    assert run("predict", "run", "photos", "-o", "folder.csv") == 0
    assert run("predict", "run", "photos.csv", "-o", "list.csv") == 0
    by_folder, by_list = pl.read_csv("folder.csv").sort("path"), pl.read_csv("list.csv")
    by_list = by_list.with_columns(pl.col("path").str.strip_prefix("photos/")).sort("path")
    assert by_folder["path"].to_list() == by_list["path"].to_list()
    np.testing.assert_allclose(by_folder["circle"], by_list["circle"], atol=1e-6)


def test_inputs_are_standardised_features_and_raw_rows_are_features(tmp_path, model_folder):
    texts, bert = write_texts(tmp_path), model_folder("bert")
    dataset = load("tickets.csv", texts_options(bert))
    train, raw = dataset.train.inputs, dataset.raw
    np.testing.assert_allclose(train.mean(dim=0), torch.zeros(16), atol=1e-5)
    np.testing.assert_allclose(train.std(dim=0, correction=0), torch.ones(16), atol=1e-4)
    assert len(raw.development) + len(raw.test) == len(texts)
    assert raw.num_train == len(dataset.train)
    np.testing.assert_allclose(
        dataset.encoder.scaled(raw.development.features[: raw.num_train]), train, atol=1e-6
    )

    stored = format_from_json(raw.development.format.to_json())
    assert stored == raw.development.format
    pieces = list(stored.pieces(tmp_path / "tickets.csv", 16))
    assert [len(piece) for piece in pieces] == [16, 16, 8]
    known = open_backbone(BackboneChoice(f"hf:{bert}", "texts")).features(texts)
    np.testing.assert_allclose(np.concatenate([piece.features for piece in pieces]), known, atol=1e-5)
    np.testing.assert_allclose(stored.rows(texts[:3]).features, known[:3], atol=1e-5)


def test_linear_learns_from_features_and_words(tmp_path, model_folder):
    texts = write_texts(tmp_path)
    rows = load("tickets.csv", texts_options(model_folder("bert"))).raw.development
    assert set(rows.texts) < set(texts)
    matrix = LinearLearner(C=1.0).fit(rows, seed=0).encoder.encode(rows).toarray()
    dense = rows.features - rows.features.mean(axis=0)
    dense /= rows.features.std(axis=0)
    assert np.square(matrix[:, :16]).sum(axis=1).mean() == pytest.approx(0.25, rel=1e-3)
    matrix[:, :16] *= np.sqrt(16) / 0.5
    np.testing.assert_allclose(matrix[:, :16], dense, atol=1e-4)
    own = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, token_pattern=r"(?u)\w+|[^\w\s]")
    np.testing.assert_allclose(matrix[:, 16:], own.fit_transform(rows.texts).toarray(), atol=1e-5)


def test_terms_come_from_the_rows_of_a_fit_alone(tmp_path, model_folder):
    write_texts(tmp_path)
    rows = load("tickets.csv", texts_options(model_folder("bert"), text_terms=5)).raw.development
    few = fit_encoder(rows.take(np.arange(8)), "scaled", words=True)
    own = {text for text in rows.texts[:8] for text in text.split()}
    assert few.width == 16 + 5
    assert {word for term in few.words.terms for word in term.split()} <= own


def test_other_learners_take_the_features_alone(tmp_path, model_folder):
    write_texts(tmp_path)
    raw = load("tickets.csv", texts_options(model_folder("bert"))).raw
    fitted = ForestLearner(trees=3).fit(raw.development, seed=0)
    assert fitted.encoder.width == 16
    assert fitted.logits(raw.test).shape == (len(raw.test), 2)


def test_a_linear_model_of_words_refuses_features_without_texts(tmp_path, model_folder):
    write_texts(tmp_path)
    rows = load("tickets.csv", texts_options(model_folder("bert"))).raw.development
    fitted = LinearLearner(C=1.0).fit(rows, seed=0)
    with pytest.raises(UserError, match="pass the texts"):
        fitted.logits(rows.format.rows(rows.features))


def test_texts_without_a_term_that_occurs_twice_leave_the_features(tmp_path, model_folder):
    write_texts(tmp_path)
    rows = load("tickets.csv", texts_options(model_folder("bert"))).raw.development
    rows = replace(rows, texts=np.array([f"w{i}" for i in range(len(rows))], dtype=object))
    assert LinearLearner(C=1.0).fit(rows, seed=0).encoder.width == 16


def test_features_are_computed_once_for_all_methods_and_splits(tmp_path, model_folder, monkeypatch):
    from tailmask.backbones.hugging_face import HuggingFaceBackbone

    write_texts(tmp_path)
    first = load("tickets.csv", texts_options(model_folder("bert")))
    monkeypatch.setattr(HuggingFaceBackbone, "features", lambda *_: pytest.fail("they are in the cache"))
    again = load("tickets.csv", texts_options(model_folder("bert")))
    assert (again.train.inputs == first.train.inputs).all()
    assert again.source == first.source
    load("tickets.csv", texts_options(model_folder("bert"), data_seed=1))


def test_the_source_names_the_model_and_not_its_place(tmp_path, model_folder):
    write_texts(tmp_path)
    source = load("tickets.csv", texts_options(model_folder("bert"))).source
    assert source["backbone"]["name"] == "hf:bert0"
    assert str(model_folder("bert").parent) not in str(source)


def test_arrays_of_images_and_public_images(tmp_path, model_folder):
    pixels = np.random.default_rng(0).integers(256, size=(20, 12, 9), dtype=np.uint8)
    np.savez("pixels.npz", X=pixels, Y=np.eye(2, dtype=np.int8)[np.arange(20) % 2])
    options = DataOptions(backbone=f"hf:{model_folder('vit')}")
    dataset = load("pixels.npz", options)
    images = [Image.fromarray(each).convert("RGB") for each in pixels]
    expected = open_backbone(BackboneChoice(options.backbone, "images")).features(images)
    inputs = torch.cat(list(dataset.encoder.batches(tmp_path / "pixels.npz", 8)))
    np.testing.assert_allclose(inputs, dataset.encoder.scaled(expected), atol=1e-4)


def test_embed_writes_what_load_reads(tmp_path, model_folder, capsys):
    texts, bert = write_texts(tmp_path), model_folder("bert")
    command = ["tickets.csv", "--labels", "tag_*", "--text", "text", "--model", f"hf:{bert}"]
    assert run("embed", *command, "-o", "features.npz") == 0
    assert capsys.readouterr().out == "features.npz: 40 rows of 16 features\n"
    with np.load("features.npz") as file:
        known = open_backbone(BackboneChoice(f"hf:{bert}", "texts")).features(texts)
        np.testing.assert_allclose(file["X"], known, atol=1e-5)
        assert file["classes"].tolist() == ["tag_cat", "tag_red"]
        assert file["Y"][:, 1].tolist() == [i % 2 for i in range(40)]
    assert load("features.npz").classes == ("tag_cat", "tag_red")
    assert run("embed", *command, "-o", "features.npz") == 2
    assert run("embed", *command, "-o", "features.npz", "--force") == 0


OWN = """
def lengths(texts):
    return [[len(text), text.count("cat"), text.count("red")] for text in texts]

def flat(texts):
    return [len(text) for text in texts]

class Model:
    def encode(self, texts):
        return lengths(texts)

model = Model()
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_words.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    write_texts(tmp_path)
    return ["tickets.csv", "--labels", "tag_*", "--text", "text"]


def test_an_encoder_of_ones_own_runs_only_if_it_is_named(own, capsys):
    assert run("train", *own, "--encoder", "own_words:lengths", "--epochs", 1, "-o", "run") == 0
    capsys.readouterr()
    assert run("predict", "run", "tickets.csv", "-o", "out.csv") == 2
    assert "with --encoder own_words:lengths" in capsys.readouterr().err
    assert run("predict", "run", "tickets.csv", "-o", "out.csv", "--encoder", "own_words:flat") == 2
    assert run("predict", "run", "tickets.csv", "-o", "out.csv", "--encoder", "own_words:lengths") == 0
    assert pl.read_csv("out.csv").height == 40


def test_an_object_with_encode_is_an_encoder(own):
    options = DataOptions(labels="tag_*", text="text", encoder="own_words:model")
    assert load("tickets.csv", options).shape == (3,)


@pytest.mark.parametrize(
    ("encoder", "sentence"),
    [
        ("own_words:flat", "got shape (40,)"),
        ("own_words:Model", "got a class"),
        ("own_words:missing", "cannot be imported"),
        ("own_words", "must be written as package.module:function"),
    ],
)
def test_a_wrong_encoder_gets_one_sentence(encoder, sentence, own, capsys):
    if encoder == "own_words:flat":
        own = [*own, "--test-file", "tickets.csv", "--validation", "0"]
    assert run("train", *own, "--encoder", encoder, "-o", "run") == 2
    assert sentence in capsys.readouterr().err


def test_a_moved_model_is_found_by_its_new_place(tmp_path, capsys):
    write_texts(tmp_path)
    save_model("bert", tmp_path / "old")
    command = ["tickets.csv", "--labels", "tag_*", "--text", "text", "--model", "hf:old"]
    assert run("train", *command, "--epochs", 1, "-o", "run") == 0
    (tmp_path / "old").rename(tmp_path / "new")
    capsys.readouterr()
    assert run("predict", "run", "tickets.csv", "-o", "out.csv") == 2
    assert run("predict", "run", "tickets.csv", "-o", "out.csv", "--model", "hf:new") == 0
    save_model("roberta", tmp_path / "other")
    capsys.readouterr()
    assert run("predict", "run", "tickets.csv", "-o", "out2.csv", "--model", "hf:other") == 2
    assert "has changed since training" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("backbone.py", "write --model backbone:FUNCTION"),
        ("nets/backbone.py:build", "write --model nets.backbone:build"),
        ("google/vit-base-patch16-224", "write --model hf:google/vit-base-patch16-224"),
    ],
)
def test_a_model_in_the_wrong_form_gets_the_right_one(model, sentence, capsys):
    assert run("train", "digits", "--model", model) == 2
    assert sentence in capsys.readouterr().err


def test_mistakes_get_one_sentence(tmp_path, model_folder, capsys):
    write_texts(tmp_path)
    bert = f"hf:{model_folder('bert')}"
    for arguments, sentence in [
        (["tickets.csv", "--labels", "tag_*", "--model", bert], "has 2 columns of words (id, text)"),
        (["tickets.csv", "--labels", "tag_*", "--text", "text", "--model", bert, "--flips"], "for images"),
        (["tickets.csv", "--model", bert, "--backbone", "hf:x"], "name two pretrained models"),
        (["tickets.csv", "--backbone", "bert"], "must be hf:NAME_OR_FOLDER or timm:NAME"),
    ]:
        assert run("train", *arguments, "-o", "run") == 2
        assert sentence in capsys.readouterr().err
    np.savez("rows.npz", X=np.eye(20), Y=np.eye(2, dtype=np.int8)[np.arange(20) % 2])
    assert run("train", "rows.npz", "--model", bert, "-o", "run") == 2
    assert "takes images or texts, but rows has neither" in capsys.readouterr().err
    (tmp_path / "a.jpg").write_text("no image")
    pl.DataFrame({"path": ["a.jpg"] * 20, "tag": [0, 1] * 10}).write_csv("list.csv")
    assert (
        run("train", "list.csv", "--labels", "tag", "--model", f"hf:{model_folder('vit')}", "-o", "run") == 2
    )
    assert "a.jpg cannot be decoded as an image" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_frames_take_a_backbone(model_folder):
    frame = pl.DataFrame({"text": WORDS * 3, "label": [0, 1, 1] * len(WORDS)})
    dataset = load(frame, DataOptions(backbone=f"hf:{model_folder('bert')}"), labels=["label"])
    assert dataset.shape == (16,)


def test_a_choice_of_a_backbone_is_part_of_compare(tmp_path, model_folder, capsys):
    write_texts(tmp_path)
    command = ["tickets.csv", "--labels", "tag_*", "--text", "text", "--model", f"hf:{model_folder('bert')}"]
    assert run("compare", *command, "--methods", "bce", "--seeds", 1, "--list") == 0
    assert f"--backbone hf:{model_folder('bert')}" in capsys.readouterr().out


def test_error_for_a_text_encoder_without_a_table(tmp_path, model_folder):
    write_texts(tmp_path)
    dataset = load("tickets.csv", texts_options(model_folder("bert")))
    with pytest.raises(UserError, match="must be a table"):
        list(dataset.encoder.batches(tmp_path / "x.npz", 4))


@pytest.mark.parametrize("name", ["vit", "convnext"])
def test_onnx_holds_the_backbone_for_images(name, tmp_path, model_folder, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    from transformers import AutoImageProcessor

    write_images(tmp_path)
    folder = model_folder(name)
    command = ["photos.csv", "--labels", ",".join(CLASSES), "--model", f"hf:{folder}", "--flips"]
    assert run("train", *command, "--epochs", 1, "--folds", 1, "-o", "run") == 0
    assert run("export", "run", "--format", "onnx", "-o", "model.onnx") == 0
    assert "inputs are the pixel_values that the image processor" in capsys.readouterr().out
    assert run("predict", "run", "photos", "-o", "out.csv") == 0
    table = pl.read_csv("out.csv")
    images = [Image.open(tmp_path / "photos" / name).convert("RGB") for name in table["path"]]
    pixels = AutoImageProcessor.from_pretrained(folder)(images, return_tensors="np")["pixel_values"]
    found = onnxruntime.InferenceSession("model.onnx").run(["probabilities"], {"inputs": pixels})[0]
    np.testing.assert_allclose(found, table.select(CLASSES).to_numpy(), atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "roberta", "modernbert"])
def test_onnx_holds_the_backbone_for_texts(name, tmp_path, model_folder, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    from transformers import AutoTokenizer

    texts, folder = write_texts(tmp_path), model_folder(name)
    command = ["tickets.csv", "--labels", "tag_*", "--text", "text", "--model", f"hf:{folder}"]
    assert run("train", *command, "--epochs", 1, "--folds", 1, "-o", "run") == 0
    assert run("export", "run", "--format", "onnx", "-o", "model.onnx") == 0
    assert "its inputs are the input_ids and attention_mask" in capsys.readouterr().out
    assert run("predict", "run", "tickets.csv", "-o", "out.csv") == 0
    encoded = dict(AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="np"))
    session = onnxruntime.InferenceSession("model.onnx")
    inputs = {each.name: encoded[each.name] for each in session.get_inputs()}
    found = session.run(["probabilities"], inputs)[0]
    expected = pl.read_csv("out.csv").select("tag_cat", "tag_red").to_numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_onnx_takes_features_if_the_tokenizer_gives_more_than_tokens(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    folder = save_model("bert", tmp_path / "model")
    write_texts(tmp_path)
    words = json.loads((folder / "tokenizer.json").read_text())
    for part in words["post_processor"]["single"]:
        next(iter(part.values()))["type_id"] = 1
    (folder / "tokenizer.json").write_text(json.dumps(words))
    command = ["tickets.csv", "--labels", "tag_*", "--text", "text", "--model", f"hf:{folder}"]
    assert run("train", *command, "--epochs", 1, "--folds", 1, "-o", "run") == 0
    assert run("export", "run", "--format", "onnx", "-o", "model.onnx") == 0
    assert "its inputs are features of hf:" in capsys.readouterr().out


def test_onnx_of_an_encoder_of_ones_own_is_the_head_and_says_so(own, tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    encoder = ["--encoder", "own_words:model"]
    assert run("train", *own, *encoder, "--epochs", 1, "--folds", 1, "-o", "run") == 0
    assert run("export", "run", "--format", "onnx", "-o", "model.onnx") == 0
    assert "its inputs are features of own_words:model" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["linear", "bce"])
def test_cross_fitted_runs_predict_from_texts(method, tmp_path, model_folder, capsys):
    write_texts(tmp_path)
    bert = f"hf:{model_folder('bert')}"
    command = ["tickets.csv", "--labels", "tag_*", "--text", "text", "--model", bert, "--folds", 2]
    epochs = ["--epochs", 2] if method == "bce" else []
    assert run("train", *command, "--method", method, *epochs, "-o", "run") == 0
    assert run("predict", "run", "tickets.csv", "-o", "out.csv", "--id", "id") == 0
    table = pl.read_csv("out.csv")
    assert table["id"].to_list() == [f"r{i}" for i in range(40)]
    assert run("predict", "run", "tickets.csv", "-o", "again.csv", "--model", bert) == 0
    stored = Run("run").predictions()
    test = table[(stored["test_rows"] - 1).tolist()].select("tag_cat", "tag_red").to_numpy()
    np.testing.assert_allclose(test, 1 / (1 + np.exp(-stored["test_logits"])), atol=1e-4)


def test_onnx_of_fold_models_takes_features(tmp_path, model_folder, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    texts, bert = write_texts(tmp_path), f"hf:{model_folder('bert')}"
    command = ["tickets.csv", "--labels", "tag_*", "--text", "text", "--model", bert, "--folds", 2]
    assert run("train", *command, "--method", "boost:rounds=5", "-o", "run") == 0
    assert run("export", "run", "-o", "model.onnx") == 0
    assert "its inputs are features of hf:" in capsys.readouterr().out
    assert run("predict", "run", "tickets.csv", "-o", "out.csv") == 0
    features = open_backbone(BackboneChoice(bert, "texts")).features(texts)
    found = onnxruntime.InferenceSession("model.onnx").run(["probabilities"], {"inputs": features})[0]
    expected = pl.read_csv("out.csv").select("tag_cat", "tag_red").to_numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert run("train", *command, "--method", "linear", "-o", "words") == 0
    assert run("export", "words", "-o", "words.onnx") == 2
    assert "words of texts" in capsys.readouterr().err


def test_groups_reach_the_raw_rows(tmp_path, model_folder):
    write_texts(tmp_path)
    frame = pl.read_csv("tickets.csv").with_columns(patient=pl.int_range(40) // 4)
    options = texts_options(model_folder("bert"), group="patient")
    for source in (frame, "grouped.csv"):
        frame.write_csv("grouped.csv")
        dataset = load(source, options)
        assert len(set(dataset.raw.development.groups)) == 10 - len(dataset.test) // 4
        [note] = [note for note in dataset.notes if "only the texts" in note]
        assert "id" in note
        assert "patient" not in note


def test_fit_chooses_among_learners_on_features(tmp_path, model_folder):
    write_texts(tmp_path)
    command = ["tickets.csv", "--labels", "tag_*", "--text", "text", "--model", f"hf:{model_folder('bert')}"]
    assert run("fit", *command, "--methods", "linear", "--folds", 2, "-o", "best") == 0
    assert run("predict", "best", "tickets.csv", "-o", "out.csv") == 0
    assert pl.read_csv("out.csv").height == 40
