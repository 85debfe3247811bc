"""Predictions as a table: the same in every format, told apart, streamed, and never half written."""

from __future__ import annotations

import csv
import json
import os
import sys
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from finished_runs import MadeInputs, predictor_of, random_model, write_table
from PIL import Image
from torch import nn

from tailmask._util.messages import UserError
from tailmask.data.encoders.image import ImageEncoder
from tailmask.inference import Predictor, write_predictions
from tailmask.inference.prediction_files import Piece


def read(path: Path) -> list[dict]:
    """The rows of a table: its first column, the labels, and the probabilities by class."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            row["labels"] = row["labels"].split(",") if row["labels"] else []
    else:
        rows = pl.read_parquet(path).to_dicts()
    first = next(iter(rows[0]))
    return [
        {
            first: row.pop(first),
            "labels": row.pop("labels"),
            "probabilities": {name: float(value) for name, value in row.items()},
        }
        for row in rows
    ]


@pytest.mark.parametrize("library", [pd, pl])
def test_a_frame_gives_a_frame(library, table_run, tmp_path):
    source = write_table(tmp_path / "new.csv", 20, labels=False, seed=1)
    predictor = Predictor.load(table_run)
    (inputs,) = predictor.batches(source)
    for name in ("predict", "predict_proba"):
        found = getattr(predictor, name)(library.read_csv(source))
        assert isinstance(found, library.DataFrame)
        assert list(found.columns) == list(predictor.classes)
        np.testing.assert_allclose(found.to_numpy(), getattr(predictor, name)(inputs).numpy(), rtol=1e-5)
    with pytest.raises(UserError, match="lacks the columns"):
        predictor.predict(library.DataFrame({"other": [1.0]}))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_every_format_holds_what_the_predictor_says(suffix, table_run, tmp_path):
    source = write_table(tmp_path / "new.csv", 2500, labels=False, seed=1)  # more than two batches
    predictor = Predictor.load(table_run)
    assert predictor.batch_size < 2500 / 2
    counts = []
    number = write_predictions(predictor, source, tmp_path / f"out{suffix}", progress=counts.append)
    assert number == 2500
    assert counts == [1024, 2048, 2500]
    (inputs,) = predictor.batches(source, batch_size=2500)
    probabilities = predictor.predict_proba(inputs)
    rows = read(tmp_path / f"out{suffix}")
    assert [int(row["row"]) for row in rows] == list(range(2500))
    assert list(rows[0]["probabilities"]) == ["tag_a", "tag_b", "tag_c"]
    found = np.array([list(row["probabilities"].values()) for row in rows])
    np.testing.assert_allclose(found, probabilities, rtol=1e-6)
    thresholds = predictor.decision.thresholds
    expected = [
        [name for name, p, t in zip(predictor.classes, row, thresholds, strict=True) if p >= t]
        for row in probabilities
    ]
    assert [row["labels"] for row in rows] == expected
    assert {len(labels) for labels in expected} >= {0, 1, 2}


def test_a_named_column_tells_rows_apart(table_run, tmp_path):
    source = write_table(tmp_path / "new.csv", 3, labels=False)
    predictor = Predictor.load(table_run)
    write_predictions(predictor, source, tmp_path / "out.csv", id_column="code")
    assert [row["code"] for row in read(tmp_path / "out.csv")] == ["0000", "0001", "0002"]
    pl.read_csv(source).write_parquet(tmp_path / "new.parquet")  # numbers there, and so in the output
    write_predictions(predictor, tmp_path / "new.parquet", tmp_path / "out.parquet", id_column="code")
    assert pl.read_parquet(tmp_path / "out.parquet")["code"].to_list() == [0, 1, 2]
    with pytest.raises(UserError, match=r"lacks the columns cod, which --id names: did you mean 'code'\?"):
        write_predictions(predictor, source, tmp_path / "other.csv", id_column="cod")


def test_an_array_tells_rows_apart(digits_run, tmp_path):
    predictor = Predictor.load(digits_run)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 12, 12), dtype=np.uint8)
    np.savez(tmp_path / "new.npz", X=pixels, names=np.array(["a", "b", "c"]), few=np.arange(2))
    write_predictions(predictor, tmp_path / "new.npz", tmp_path / "out.jsonl", id_column="names")
    assert [row["names"] for row in read(tmp_path / "out.jsonl")] == ["a", "b", "c"]
    for name, message in [
        ("few", "must have one 'few' per sample"),
        ("X", "'X' must have one value per row"),
        ("no", "has no array 'no'"),
    ]:
        with pytest.raises(UserError, match=message):
            write_predictions(predictor, tmp_path / "new.npz", tmp_path / "x.csv", id_column=name)


def image_predictor(path: Path) -> Predictor:
    encoder = ImageEncoder(channels=3, height=4, width=4, mean=(0.0,) * 3, std=(1.0,) * 3)
    model = random_model(path / "m.safetensors", shape=(3, 4, 4), encoder=encoder.to_json())
    return Predictor.load(model)


def test_images_are_told_apart_by_their_paths(tmp_path):
    predictor = image_predictor(tmp_path)
    folder = tmp_path / "images"
    folder.mkdir()
    shades = {"b.png": 250, "a.jpg": 10, "c.PNG": 120}
    for name, shade in shades.items():
        Image.new("RGB", (6, 6), (shade, shade, shade)).save(folder / name)
    (folder / "notes.md").write_text("no image")
    (tmp_path / "list.csv").write_text("path,about\nimages/b.png,5\nimages/a.jpg,6\n")
    (tmp_path / "list.txt").write_text("images/a.jpg\nimages/c.PNG\n")
    values = {}
    for source, names in [
        (folder, ["a.jpg", "b.png", "c.PNG"]),
        (tmp_path / "list.csv", ["images/b.png", "images/a.jpg"]),
        (tmp_path / "list.txt", ["images/a.jpg", "images/c.PNG"]),
        (folder / "b.png", ["b.png"]),
    ]:
        write_predictions(predictor, source, tmp_path / "out.jsonl", force=True)
        rows = read(tmp_path / "out.jsonl")
        assert [row["path"] for row in rows] == names
        for row in rows:  # one image has one probability, whoever lists it
            value = values.setdefault(Path(row["path"]).name, row["probabilities"]["cat"])
            assert row["probabilities"]["cat"] == pytest.approx(value, abs=1e-6)
    assert len(set(values.values())) == 3
    write_predictions(predictor, tmp_path / "list.csv", tmp_path / "out.csv", id_column="about")
    assert [row["about"] for row in read(tmp_path / "out.csv")] == ["5", "6"]
    with pytest.raises(UserError, match="--id about needs a table or an"):
        write_predictions(predictor, folder, tmp_path / "x.csv", id_column="about")


def made(*sizes: int, **changes) -> Predictor:
    encoder = MadeInputs([torch.randn(size, 3) for size in sizes], [])
    return predictor_of(encoder, nn.Linear(3, len(changes.get("classes", "ab"))), **changes)


def test_classes_may_have_the_names_of_other_columns(tmp_path):
    predictor = made(2, classes=("row", "labels", "row_"))
    for suffix, names in [
        (".csv", ["row__", "labels_", "row", "labels", "row_"]),
        (".parquet", ["row__", "labels_", "row", "labels", "row_"]),
        (".jsonl", ["row", "labels", "probabilities"]),
    ]:
        target = tmp_path / f"out{suffix}"
        write_predictions(predictor, tmp_path, target)
        scan = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson}[suffix]
        assert scan(target).columns == names


def test_a_comma_in_a_class_would_be_two_labels_in_a_csv(tmp_path):
    predictor = made(2, classes=("cats, dogs", "b"))
    with pytest.raises(UserError, match="the class 'cats, dogs' has a comma in its name"):
        write_predictions(predictor, tmp_path, tmp_path / "out.csv")
    assert write_predictions(predictor, tmp_path, tmp_path / "out.jsonl") == 2


def test_odd_names_survive_every_format(tmp_path):
    names = ('say "hi"', "zwei\nZeilen", "ä; ö\t")
    predictor = made(40, classes=names)
    for suffix in (".csv", ".parquet", ".jsonl"):
        write_predictions(predictor, tmp_path, tmp_path / f"out{suffix}")
        rows = read(tmp_path / f"out{suffix}")
        assert tuple(rows[0]["probabilities"]) == names
        assert {label for row in rows for label in row["labels"]} == set(names)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_batches_are_taken_one_by_one_and_let_go(suffix, tmp_path, monkeypatch):
    alive: dict[str, list[weakref.ref]] = {"inputs": [], "pieces": []}
    most = dict.fromkeys(alive, 0)

    def watch(kind, value):
        alive[kind].append(weakref.ref(value))
        most[kind] = max(most[kind], sum(reference() is not None for reference in alive[kind]))

    def watched_piece(*arguments):
        piece = Piece(*arguments)
        watch("pieces", piece)
        return piece

    class Network(nn.Module):
        def forward(self, inputs):
            watch("inputs", inputs)
            return inputs[:, :2]

    monkeypatch.setattr("tailmask.inference.prediction_table.Piece", watched_piece)
    encoder = MadeInputs([torch.randn(5, 3) for _ in range(20)], [])
    ahead = []
    write_predictions(
        predictor_of(encoder, Network()),
        tmp_path,
        tmp_path / f"out{suffix}",
        progress=lambda number: ahead.append(len(encoder.taken) - number // 5),
    )
    assert len(alive["pieces"]) == len(ahead) == 20
    assert max(ahead) == 0  # no batch is asked for before the last one was handed on
    assert most["inputs"] <= 2
    assert most["pieces"] <= 3


def test_parquet_is_written_before_the_last_row_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("tailmask.inference.prediction_files.GROUP_NUMBERS", 2**20)
    num_pieces, size, num_classes = 30, 10_000, 120  # 144 MB of probabilities

    class Endless(MadeInputs):
        def batches(self, path, batch_size):
            return (torch.randn(size, 3) for _ in range(num_pieces))

    network = nn.Linear(3, num_classes)
    nn.init.constant_(network.bias, -5.0)  # few labels
    classes = tuple(f"class {number}" for number in range(num_classes))
    predictor = predictor_of(Endless([], []), network, classes=classes)
    folder = tmp_path / "out"
    folder.mkdir()
    written = []
    write_predictions(
        predictor,
        tmp_path,
        folder / "out.parquet",
        progress=lambda _: written.append(sum(path.stat().st_size for path in folder.iterdir())),
    )
    assert written[-1] > (folder / "out.parquet").stat().st_size / 2


def test_a_failure_leaves_nothing(tmp_path):
    class Failing(MadeInputs):
        def batches(self, path, batch_size):
            yield torch.randn(4, 3)
            raise UserError("line 5 of the file is broken")

    predictor = predictor_of(Failing([], []), nn.Linear(3, 2))
    (tmp_path / "out.csv").write_text("old")
    for name in ("out.csv", *["out.parquet"] * 100, "out.jsonl"):  # polars' threads may be late: once in 400
        with pytest.raises(UserError, match="line 5 of the file is broken"):
            write_predictions(predictor, tmp_path, tmp_path / name, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert (tmp_path / "out.csv").read_text() == "old"


def test_files_that_are_there_stay(table_run, tmp_path):
    source = write_table(tmp_path / "new.csv", 4, labels=False)
    predictor, target = Predictor.load(table_run), tmp_path / "out.csv"
    target.write_text("old")
    with pytest.raises(UserError, match="already exists: choose another name, or overwrite it with --force"):
        write_predictions(predictor, source, target)
    assert target.read_text() == "old"
    write_predictions(predictor, source, target, force=True)
    assert len(read(target)) == 4
    before = source.read_bytes()
    with pytest.raises(UserError, match="is the input file"):
        write_predictions(predictor, source, source, force=True)
    assert source.read_bytes() == before


@pytest.mark.parametrize("name", ["out.xls", "out", "out.csv.gz"])
def test_unknown_endings_are_refused(name, tmp_path):
    with pytest.raises(UserError, match=r"its name must end with \.csv or \.parquet or \.jsonl"):
        write_predictions(made(2), tmp_path, tmp_path / name)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="everybody may write there")
def test_a_folder_that_is_read_only(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="cannot be written: Permission denied"):
        write_predictions(made(2), tmp_path, tmp_path / "out.csv")


def test_a_place_where_no_folder_can_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_predictions(made(2), tmp_path, tmp_path / "file" / "out.csv")
