"""ONNX programs on raw rows give what `tailmask predict` gives for the same file."""

from __future__ import annotations

import csv
import datetime
import json
import math
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import polars as pl
import pytest

from tailmask.cli import main
from tailmask.data import DataOptions, load
from tailmask.data.facts import DataFacts
from tailmask.fitting import fit
from tailmask.inference import export_model, load_predictor
from tailmask.learners.cross_fitted_run import make_run
from tailmask.runs import configure

CLASSES = ["tag_big", "tag_red", "tag_rare", "tag_never"]
LEARNERS = ["linear:C=1", "trees:trees=6", "boost:rounds=6"]


def write_table(path: Path, rows: int, *, seed: int) -> Path:
    """All kinds of columns, with empty cells; a new file also has values that training rows lack."""
    rng = np.random.default_rng(seed)
    names = ["size", "rooms", "sold", "colour", "street 1", "day", "visit", "opens"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, *CLASSES])
        for row in range(rows):
            size, colour = rng.normal(), rng.choice(["red", "green", "blue"] + ["grün", "a,b"] * bool(seed))
            day = datetime.date(2020, 1, 30) + datetime.timedelta(days=int(rng.integers(-200 * seed, 900)))
            moment = f"{rng.integers(24):02d}:{rng.integers(60):02d}"
            cells = [
                f"{size * (1 + 99 * (seed and row % 7 == 0)):.3f}",
                rng.integers(1, 6 + 3 * seed),
                rng.choice(["true", "false"]),
                colour,
                f"s{rng.integers(12)}b",
                day,
                f"{day} {moment}",
                moment,
            ]
            tags = [size + 0.3 * rng.normal() > 0, colour == "red", row % 10 == 0, 0]
            shown = ["" if rng.random() < 0.12 else cell for cell in cells]
            writer.writerow([*shown, *(int(tag) for tag in tags)])
    return path


def cells_for(about: dict, rows: list[dict[str, str]]) -> np.ndarray:
    """An input's values, from the cells of a CSV file by its description alone."""
    cells = [row[about["column"]] for row in rows]
    if "texts" in about["holds"]:
        return np.array(cells, dtype=object)[:, None]
    if "days" in about["holds"]:
        days = [
            (datetime.date.fromisoformat(c[:10]) - datetime.date(1970, 1, 1)).days if c else math.nan
            for c in cells
        ]
        return np.array(days, dtype=np.float64)[:, None]
    if "hours" in about["holds"]:
        hours = [int(c[-5:-3]) + int(c[-2:]) / 60 if c else math.nan for c in cells]
        return np.array(hours)[:, None]
    return np.array([float(cell) if cell else math.nan for cell in cells])[:, None]


def run_on_table(program: Path, table: Path) -> tuple[np.ndarray, np.ndarray, dict[str, str]]:
    """Probabilities, logits and metadata of a program, for a CSV file."""
    onnx.checker.check_model(onnx.load(program))
    session = onnxruntime.InferenceSession(program, providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    feed = {each["name"]: cells_for(each, rows) for each in json.loads(about["inputs"])}
    assert {each.name: each.shape for each in session.get_inputs()} == {name: ["batch", 1] for name in feed}
    probabilities, logits = session.run(["probabilities", "logits"], feed)
    (one,) = session.run(["probabilities"], {name: values[3:4] for name, values in feed.items()})
    np.testing.assert_allclose(one[0], probabilities[3], atol=1e-7)
    return probabilities, logits, about


def predicted(model: Path, new: Path, out: Path, *options: str) -> pl.DataFrame:
    """The table that `tailmask predict` writes."""
    assert main(["predict", str(model), str(new), "-o", str(out), *options]) == 0
    return pl.read_ndjson(out) if out.suffix == ".jsonl" else pl.read_parquet(out)


def make(data: Path, folder: Path, method: str, *, folds: int = 2) -> Path:
    """A cross-fitted run."""
    options = DataOptions(labels="tag_*", test=0.2) if data.suffix == ".csv" else DataOptions(test=0.2)
    facts = DataFacts.of(load(data, options))
    fields = ["model.hidden=[8]"] if method in ("bce", "plm:adapt=prevalence") else []
    epochs = 2 if fields else None
    config = configure(
        str(data), method, options=options, folds=folds, epochs=epochs, facts=facts, fields=fields
    )
    return make_run(config, folder).folder


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return write_table(tmp_path_factory.mktemp("table") / "table.csv", 160, seed=0)


@pytest.fixture(scope="module")
def new(tmp_path_factory) -> Path:
    return write_table(tmp_path_factory.mktemp("new") / "new.csv", 90, seed=1)


@pytest.mark.filterwarnings("ignore:.*have no positives")  # `tag_never` is a constant label
@pytest.mark.parametrize("method", [*LEARNERS, "plm:adapt=prevalence"])
def test_every_learner_on_a_table(method, table, new, tmp_path, capfd):
    run = make(table, tmp_path / "run", method)
    capfd.readouterr()
    assert main(["export", str(run), "-o", str(tmp_path / "m.onnx")]) == 0
    told = capfd.readouterr()
    assert told.out.startswith(f"{tmp_path / 'm.onnx'}: probabilities are equal to the model's")
    assert told.err == ""
    probabilities, logits, about = run_on_table(tmp_path / "m.onnx", new)
    expected = predicted(run, new, tmp_path / "out.parquet").select(CLASSES).to_numpy()
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)
    assert probabilities[:, :3].std(axis=0).min() > 1e-3
    np.testing.assert_allclose(1 / (1 + np.exp(-logits.astype(np.float64))), probabilities, atol=1e-12)
    decision = load_predictor(run).decision
    assert json.loads(about["classes"]) == CLASSES
    assert json.loads(about["thresholds"]) == decision.thresholds.tolist()
    assert (about["activation"], about["prior_shift"], about["single_label"]) == ("sigmoid", "null", "false")
    assert about["method"].split(":")[0] == method.split(":")[0]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("method", [*LEARNERS, "bce"])
def test_every_learner_on_arrays(method, kind, tmp_path):
    rng = np.random.default_rng(1)
    dense = rng.normal(size=(150, 5)) * [1, 10, 1, 0.01, 1] + [0, 100, 0, 0, 0]
    dense[rng.random(dense.shape) < 0.2] = np.nan if kind == "dense" else 0.0
    dense[:, 4] = 3.0  # a constant feature
    known = np.nan_to_num(dense)
    labels = np.stack([known[:, 0] > 0, known[:, 2] > 0.3, known[:, 0] + known[:, 2] > 1.5], axis=1)
    for name, rows in (("data", slice(None)), ("new", slice(0, 40))):
        values = dense[rows] * (1 if name == "data" else 1.3)
        parts = {"X": values}
        if kind == "sparse":
            from scipy.sparse import csr_array

            matrix = csr_array(values)
            parts = {f"X_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
        np.savez(tmp_path / f"{name}.npz", Y=labels[rows], **parts)
    run = make(tmp_path / "data.npz", tmp_path / "run", method)
    export_model(run, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (taken,) = session.get_inputs()
    assert (taken.name, taken.type, taken.shape) == ("inputs", "tensor(float)", ["batch", 5])
    probabilities, _ = session.run(None, {"inputs": (dense[:40] * 1.3).astype(np.float32)})
    out = predicted(run, tmp_path / "new.npz", tmp_path / "out.parquet")
    np.testing.assert_allclose(probabilities, out.select(pl.exclude("row", "labels")).to_numpy(), atol=1e-6)


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    """A result of `fit` with arms of all kinds."""
    options = {"methods": [*LEARNERS, "bce"], "folds": 2, "epochs": 2, "options": DataOptions(labels="tag_*")}
    return fit(table, out=tmp_path_factory.mktemp("fit") / "model", **options)


def check_labels(model: Path, new: Path, folder: Path, *options: str) -> dict[str, str]:
    """Export a model; its probabilities and labels are those that `tailmask predict` writes."""
    assert main(["export", str(model), "-o", str(folder / "m.onnx"), "--force", *options]) == 0
    probabilities, _, about = run_on_table(folder / "m.onnx", new)
    out = predicted(model, new, folder / "out.jsonl", "--force", *options)
    expected = np.array([[row[name] for name in CLASSES] for row in out["probabilities"]])
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)
    reached = probabilities >= np.array(json.loads(about["thresholds"]))
    named = [[name for name, is_there in zip(CLASSES, row, strict=True) if is_there] for row in reached]
    assert named == out["labels"].to_list()
    return about


def test_a_result_of_fit(fitted, new, tmp_path):
    check_labels(fitted.folder, new, tmp_path)


def test_the_ensemble_of_a_study_and_its_other_runs(fitted, new, tmp_path):
    study = tmp_path / "study"
    shutil.copytree(fitted.folder / "runs", study / "runs")
    shutil.copytree(fitted.folder / "ensemble", study / "ensembles" / "ensemble_seed=0")
    chosen = {"method": "ensemble", "decision": "default", "seed": 0, "run": "ensemble_seed=0"}
    record = {"format": "tailmask.compare/1", "comparison": {"chosen": chosen}}
    (study / "comparison.json").write_text(json.dumps(record))
    (study / "study.json").write_text("{}")
    about = check_labels(study, new, tmp_path)
    assert (about["method"], json.loads(about["thresholds"])) == ("ensemble", [0.5] * 4)
    about = check_labels(study, new, tmp_path, "--run", "bce")
    assert (about["method"], json.loads(about["thresholds"]) == [0.5] * 4) == ("bce", False)


def test_a_learner_without_folds(table, new, tmp_path):
    check_labels(make(table, tmp_path / "run", "boost:rounds=6", folds=1), new, tmp_path)


def refused(capsys, folder: Path, *arguments: object) -> str:
    """The sentence with which an export is refused; nothing is written."""
    before = sorted(folder.iterdir())
    capsys.readouterr()
    assert main(["export", *map(str, arguments)]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert sorted(folder.iterdir()) == before
    return told.err


def test_other_formats_name_the_one_that_works(fitted, tmp_path, capsys):
    for name in ("m.pt2", "m.safetensors"):
        assert "write an .onnx file" in refused(capsys, tmp_path, fitted.folder, "-o", tmp_path / name)


def test_a_column_of_texts_is_named(table, tmp_path, capsys):
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    frame = pl.DataFrame(rows).select("size", *CLASSES)
    frame.with_columns(note=pl.Series([f"a note on {row['rooms']} rooms" for row in rows])).write_csv(
        tmp_path / "texts.csv"
    )
    options = DataOptions(labels="tag_*", text="note", test=0.2)
    facts = DataFacts.of(load(tmp_path / "texts.csv", options))
    config = configure(str(tmp_path / "texts.csv"), "linear:C=1", options=options, folds=2, facts=facts)
    run = make_run(config, tmp_path / "run").folder
    sentence = refused(capsys, tmp_path, run, "-o", tmp_path / "m.onnx")
    assert "'note' is text" in sentence
    assert f"tailmask predict {run}" in sentence
