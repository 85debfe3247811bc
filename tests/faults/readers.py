"""Every reader of tailmask as something to be driven: valid files, and a call that takes one of them in.

A reader is called as its commands call it: a file of a user's is loaded, split and encoded; a run folder is
compared, drawn from and predicted with.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from PIL import Image
from rich.console import Console
from safetensors import SafetensorError
from safetensors.torch import load, save
from scipy import sparse

from tailmask import PartialLabelMasking
from tailmask.calibration import Calibration
from tailmask.comparison.arrangement import arrange
from tailmask.comparison.run_outputs import read_outputs
from tailmask.data import DataOptions
from tailmask.data.encoders.encoder import Encoder
from tailmask.data.public.cifar import read_cifar
from tailmask.data.readers.idx import read_idx
from tailmask.data.readers.mulan import read_label_names
from tailmask.data.readers.user_file import load_file
from tailmask.inference import Predictor
from tailmask.report import run_curves
from tailmask.report.run_terminal import print_run
from tailmask.runs import Run, configure
from tailmask.runs.recipe import load_recipe
from tailmask.training import train
from tailmask.training.checkpoint_file import read_checkpoint
from training.tiny import Interrupter, tiny_config, tiny_dataset

__all__ = ["READERS", "Reader"]

NUM_ROWS = 24


@dataclass(frozen=True)
class Reader:
    """`make` writes valid files into a folder and names those to be corrupted; `read` takes one of them."""

    make: Callable[[Path], list[str]]
    read: Callable[[Path], object]


def labels(number: int = NUM_ROWS) -> np.ndarray:
    """Targets (N, 3), the last class rare, each class with both labels in any split."""
    rows = np.arange(number)
    return np.stack([rows % 2, rows % 3 == 0, rows % 5 == 0], axis=1).astype(np.int8)


def take(dataset: Any) -> None:
    """Everything that training asks of a data set."""
    for split in dataset.splits.values():
        split.counts()
        inputs, _ = split.batch(torch.arange(min(4, len(split))), torch.Generator().manual_seed(0))
        assert torch.isfinite(inputs).all()
    record = {"source": dataset.source, "classes": dataset.classes, "encoder": dataset.encoder.to_json()}
    json.dumps(record, allow_nan=False, ensure_ascii=False).encode()


def load_and_predict(path: Path, encoders: Path, options: DataOptions) -> None:
    """Load a file to train on, and read it as new input with an encoder that was fitted to the valid file."""
    # Both are to be tried, whether or not the first refuses the file.
    encoder = Encoder.from_json(json.loads(encoders.read_text()))
    refused: ValueError | None = None
    try:
        take(load_file(path, options))
    except ValueError as error:
        refused = error
    for batch in encoder.batches(path, 16):
        assert batch.shape[1:] == encoder.shape
    if refused is not None:
        raise refused


def data_reader(make: Callable[[Path], list[str]], options: dict[str, DataOptions]) -> Reader:
    """A reader of users' files; `options` are by the start of the file's name."""

    def chosen(path: Path) -> DataOptions:
        return next(each for start, each in options.items() if path.name.startswith(start))

    def make_all(folder: Path) -> list[str]:
        names = make(folder)
        for name in names:
            dataset = load_file(folder / name, chosen(folder / name))
            (folder / f"{name}.encoder").write_text(json.dumps(dataset.encoder.to_json()))
        return names

    def read(path: Path) -> None:
        load_and_predict(path, path.with_name(f"{path.name}.encoder"), chosen(path))

    return Reader(make_all, read)


def make_idx(folder: Path) -> list[str]:
    images = bytes([0, 0, 8, 3]) + np.array([5, 4, 3], dtype=">u4").tobytes() + bytes(range(60))
    numbers = bytes([0, 0, 8, 1]) + np.array([60], dtype=">u4").tobytes() + bytes(range(60))
    for name, content in (("images", images), ("numbers", numbers)):
        (folder / name).write_bytes(content)
        (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
    return ["images", "images.gz", "numbers", "numbers.gz"]


def idx(path: Path) -> None:
    read_idx(path, num_dimensions=3 if path.name.startswith("images") else 1)


def make_cifar(folder: Path) -> list[str]:
    pixels = bytes(range(256)) * 12
    (folder / "ten.bin").write_bytes(b"".join(bytes([label]) + pixels for label in (0, 9, 3)))
    (folder / "hundred.bin").write_bytes(b"".join(bytes([1, label]) + pixels for label in (0, 99, 3)))
    return ["ten.bin", "hundred.bin"]


def cifar(path: Path) -> None:
    ten = path.name == "ten.bin"
    read_cifar(path, num_classes=10 if ten else 100, label_bytes=1 if ten else 2)


def parts(name: str, matrix: Any) -> dict[str, np.ndarray]:
    """A CSR matrix as .npz files have it."""
    return {
        f"{name}_data": matrix.data,
        f"{name}_indices": matrix.indices,
        f"{name}_indptr": matrix.indptr,
        f"{name}_shape": np.array(matrix.shape),
    }


def make_npz(folder: Path) -> list[str]:
    values = np.random.default_rng(0).normal(size=(NUM_ROWS, 5)).astype(np.float32)
    values[3, 2] = np.nan
    thin = sparse.csr_array(np.where(values > 0.5, values, 0.0))
    np.savez(folder / "dense.npz", X=values, Y=labels(), classes=np.array(["a", "b", "c"]))
    np.savez_compressed(folder / "thin.npz", **parts("X", thin), **parts("Y", sparse.csr_array(labels())))
    np.savez(
        folder / "images.npz", X=np.uint8(values.repeat(12, 1).reshape(-1, 6, 10)), Y=np.arange(NUM_ROWS) % 3
    )
    return ["dense.npz", "thin.npz", "images.npz"]


def frame(number: int = NUM_ROWS) -> pl.DataFrame:
    """A table of numbers, categories, booleans, texts and labels."""
    rows = range(number)
    columns: dict[str, Any] = {
        "age": [None if row == 3 else row / 7 for row in rows],
        "colour": [("red", "green", 'the "blue", one')[row % 3] for row in rows],
        "member": [row % 4 == 0 for row in rows],
        "note": [f"word{row % 5} and word{row % 7}" for row in rows],
    }
    columns |= {f"tag_{name}": labels(number)[:, column] for column, name in enumerate("abc")}
    return pl.DataFrame(columns)


def make_csv(folder: Path) -> list[str]:
    table = frame()
    table.write_csv(folder / "wide.csv")
    table.write_csv(folder / "wide.tsv", separator="\t", quote_style="never")
    tags = [
        " ".join(name for name, label in zip("abc", row, strict=True) if label) for row in labels().tolist()
    ]
    table = table.select("age", "note").with_columns(pl.Series("labels", tags))
    table.write_csv(folder / "text.csv")
    table.write_ndjson(folder / "text.jsonl")
    return ["wide.csv", "wide.tsv", "text.csv", "text.jsonl"]


def make_parquet(folder: Path) -> list[str]:
    frame().write_parquet(folder / "wide.parquet", compression="uncompressed")
    frame().write_parquet(folder / "wide2.parquet", compression="zstd")
    return ["wide.parquet", "wide2.parquet"]


ARFF = """@relation 'small: -C 3'
@attribute 'tag a' {0,1}
@attribute b {0,1}
@attribute c {0,1}
@attribute size numeric
@attribute colour {red,'light, blue',green}
@data
"""


def make_arff(folder: Path) -> list[str]:
    colours = ("red", "'light, blue'", "green", "?")
    dense = [f"{a},{b},{c},{row / 3:.2f},{colours[row % 4]}" for row, (a, b, c) in enumerate(labels())]
    thin = [f"{{0 {a},1 {b},2 {c},3 {row}}}" for row, (a, b, c) in enumerate(labels())]
    (folder / "dense.arff").write_text(ARFF + "\n".join(dense) + "\n")
    (folder / "thin.arff").write_text(ARFF + "\n".join(thin) + "\n")
    return ["dense.arff", "thin.arff"]


def make_xml(folder: Path) -> list[str]:
    inner = "".join(f'<label name="label {number}"><label name="é{number}"/></label>' for number in range(5))
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="http://mulan">\n{inner}\n</labels>\n'
    (folder / "labels.xml").write_text(text, encoding="utf-8")
    return ["labels.xml"]


def write_images(folder: Path) -> list[str]:
    """An image of each format, small enough to be hit at every place."""
    pixels = np.random.default_rng(0).integers(0, 255, size=(9, 7, 3), dtype=np.uint8)
    names = [f"{suffix}.{suffix}" for suffix in ("png", "jpg", "gif", "tiff", "bmp", "ppm", "webp")]
    for name in names:
        Image.fromarray(pixels).save(folder / name)
    return names


def make_manifest(folder: Path) -> list[str]:
    names = write_images(folder)
    rows = [
        (names[row % 7], [name for name, label in zip("012", labels()[row], strict=True) if label])
        for row in range(NUM_ROWS)
    ]
    (folder / "list.txt").write_text("".join(f"{name} {' '.join(tags)}\n" for name, tags in rows))
    (folder / "list.csv").write_text(
        "path,labels\n" + "".join(f"{name},{' '.join(tags)}\n" for name, tags in rows)
    )
    return ["list.txt", "list.csv"]


def image(path: Path) -> None:
    """The corrupt image among others in a list."""
    take(load_file(path.with_name("list.txt"), DataOptions(image_size=8, augment="crop+flip")))


def make_coco(folder: Path) -> list[str]:
    names = write_images(folder)
    content = {
        "images": [{"id": row, "file_name": names[row % 7], "width": 7} for row in range(NUM_ROWS)],
        "categories": [{"id": 10 + number, "name": name} for number, name in enumerate("abc")],
        "annotations": [
            {
                "id": int(3 * row + column),
                "image_id": int(row),
                "category_id": int(10 + column),
                "bbox": [0, 0, 1, 1],
            }
            for row, column in zip(*np.nonzero(labels()), strict=True)
        ],
    }
    (folder / "instances.json").write_text(json.dumps(content))
    return ["instances.json"]


def coco(path: Path) -> None:
    take(load_file(path, DataOptions(image_size=8)))


RECIPE = """[model]
name = "mlp"
hidden = [16, 8]
dropout = 0.1
[optimizer]
lr = 0.05
name = "adamw"
[schedule]
epochs = 12
batch_size = 64
warmup = 1.5
milestones = [6, 9.5]
factors = [0.1, 0.01]
[evaluation]
threshold = 0.5
rarest = [1, 2]
[method]
plm = { rate = 0.01, range = [0, 1] }
focal = { gamma = 2 }
"""


def make_recipe(folder: Path) -> list[str]:
    (folder / "mine.toml").write_text(RECIPE.replace(", range = [0, 1]", ""))
    return ["mine.toml"]


def recipe(path: Path) -> None:
    load_recipe(str(path))
    for method in ("plm+focal", "bce"):
        configure("digits", method, recipe=str(path), budget=0.2)


def make_run(folder: Path) -> list[str]:
    config = tiny_config(epochs=2, fields=["model.hidden=[4]"])
    train(config, folder, dataset=tiny_dataset(number=40))
    names = ["run.json", "history.jsonl", "metrics.json", "predictions.npz", "model.safetensors"]
    return [*names, "decisions.json"]


def run_folder(path: Path) -> None:
    """What `report` and `compare` take of a run."""
    run = Run(path.parent)
    arrange([run])
    print_run(run, Console(file=io.StringIO()))
    outputs = read_outputs(run)
    outputs.evaluation()
    outputs.probabilities()
    outputs.validation_score("tuned thresholds")
    run_curves.losses([run])
    _ = run.seconds
    run_curves.ratios([run])
    run_curves.divergences([run])


def make_model(folder: Path) -> list[str]:
    frame().write_csv(folder / "wide.csv")
    config = configure(
        str(folder / "wide.csv"),
        epochs=1,
        fields=["model.hidden=[4]"],
        options=DataOptions(labels="tag_*", features="age,colour,member", text="note", text_buckets=64),
    )
    train(config, folder / "run")
    (folder / "run" / "model.safetensors").replace(folder / "model.safetensors")
    return ["model.safetensors"]


def model(path: Path) -> None:
    """What `predict` takes of a model."""
    predictor = Predictor.load(path, prior_shift=True)
    for batch in predictor.batches(path.with_name("wide.csv"), 16):
        predictor.predict(batch)


def make_checkpoint(folder: Path) -> list[str]:
    with contextlib.suppress(RuntimeError):
        train(
            tiny_config(epochs=2, fields=["model.hidden=[4]"]),
            folder,
            dataset=tiny_dataset(number=40),
            progress=Interrupter(1, error=RuntimeError("stop"), after_record=True),
        )
    return ["checkpoint.ckpt"]


def criterion() -> PartialLabelMasking:
    return PartialLabelMasking.from_counts([10, 5, 1], [10, 15, 19], num_bins=4)


def make_state(folder: Path) -> list[str]:
    loss = criterion()
    loss(torch.zeros(4, 3, requires_grad=True), torch.eye(4)[:, :3])
    (folder / "state.safetensors").write_bytes(save(dict(loss.state_dict())))
    calibration = Calibration(torch.tensor([0.0, 1.0, -1.0]), torch.tensor([0.5, 0.4, 0.1]))
    (folder / "calibration.json").write_text(json.dumps(calibration.to_json()))
    return ["state.safetensors", "calibration.json"]


def state(path: Path) -> None:
    """A loss that goes on from a state, and a calibration; what their parsers refuse is the parsers'."""
    if path.suffix == ".json":
        try:
            value = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            raise ValueError("not JSON") from None
        Calibration.from_json(value).predict(torch.zeros(1, len(value["thresholds"])))
        return
    try:
        values = load(path.read_bytes())
    except (SafetensorError, KeyError, ValueError, RuntimeError, TypeError):
        raise ValueError("not safetensors") from None
    loss = criterion()
    try:
        loss.load_state_dict(values)
    except RuntimeError as error:
        if "Error(s) in loading state_dict" not in str(error):  # torch's own words for keys and shapes
            raise
        raise ValueError("other keys or shapes") from None
    assert torch.isfinite(loss(torch.zeros(4, 3, requires_grad=True), torch.eye(4)[:, :3]))
    assert torch.isfinite(loss.step().target_ratio).all()


READERS = {
    "idx": Reader(make_idx, idx),
    "cifar": Reader(make_cifar, cifar),
    "npz": data_reader(make_npz, {"": DataOptions()}),
    "csv": data_reader(
        make_csv,
        {
            "wide": DataOptions(labels="tag_*"),
            "text": DataOptions(text="note", text_buckets=32, features="age"),
        },
    ),
    "parquet": data_reader(make_parquet, {"": DataOptions(labels="tag_*")}),
    "arff": data_reader(make_arff, {"": DataOptions()}),
    "xml": Reader(make_xml, read_label_names),
    "manifest": data_reader(make_manifest, {"": DataOptions(image_size=8)}),
    "images": Reader(lambda folder: make_manifest(folder) and write_images(folder), image),
    "coco": Reader(make_coco, coco),
    "recipe": Reader(make_recipe, recipe),
    "run": Reader(make_run, run_folder),
    "model": Reader(make_model, model),
    "checkpoint": Reader(make_checkpoint, read_checkpoint),
    "state": Reader(make_state, state),
}
