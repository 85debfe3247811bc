"""What prediction does: encoders that went through JSON read new files as training read its own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from scipy.sparse import csr_array, random_array

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, Encoder, load


def through_json(encoder: Encoder) -> Encoder:
    return Encoder.from_json(json.loads(json.dumps(encoder.to_json(), allow_nan=False)))


def everything(encoder: Encoder, path: Path, batch_size: int = 7) -> torch.Tensor:
    batches = list(encoder.batches(path, batch_size))
    assert all(len(batch) == batch_size for batch in batches[:-1])
    assert all(batch.dtype == torch.float32 and batch.shape[1:] == encoder.shape for batch in batches)
    return torch.cat(batches)


def train_inputs(dataset) -> torch.Tensor:
    return dataset.train.batch(torch.arange(len(dataset.train)))[0]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_tables(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "age": [None if i == 5 else float(v) for i, v in enumerate(rng.normal(size=30))],
            "paid": rng.random(30) < 0.5,
            "kind": [f"k{i % 4}" for i in range(30)],
            "words": [f"some text {i % 3}" for i in range(30)],
            "label": np.arange(30) % 2,
        }
    )

    def save(frame: pl.DataFrame, name: str) -> Path:
        path = tmp_path / f"{name}{suffix}"
        writers = {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".jsonl": frame.write_ndjson}
        writers.get(suffix, lambda target: frame.write_csv(target, separator="\t"))(path)
        return path

    train, test = save(table, "train"), save(table.head(3), "test")
    for chosen in ({}, {"text": "words", "features": "age,paid,kind", "text_buckets": 32}):
        options = DataOptions(labels="label", test_file=test, validation=0, **chosen)
        dataset = load(train, options)
        encoder = through_json(dataset.encoder)
        assert encoder == dataset.encoder
        new = save(
            table.drop("label").select(reversed(table.columns[:-1])), "new"
        )  # another order, no labels
        assert torch.equal(everything(encoder, new), train_inputs(dataset))
    with pytest.raises(UserError, match="lacks the columns age, which the model was trained on"):
        everything(encoder, save(table.drop("age"), "short"))


def test_pieces_of_any_size_become_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pl.DataFrame({"x": np.arange(40.0), "l": np.arange(40) % 2})
    table.write_parquet(tmp_path / "a.parquet")
    options = DataOptions(labels="l", test_file=tmp_path / "a.parquet", validation=0)
    dataset = load(tmp_path / "a.parquet", options)
    pieces = [table.select("x")[start:end] for start, end in ((0, 5), (5, 17), (17, 17), (17, 18), (18, 40))]
    monkeypatch.setattr(pl.LazyFrame, "collect_batches", lambda self, chunk_size: iter(pieces))
    assert torch.equal(everything(dataset.encoder, tmp_path / "a.parquet"), train_inputs(dataset))


def test_tables_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f'{i}\tnice "word{i % 3}\t{i % 2},2\n' for i in range(20)))
    options = DataOptions(
        no_header=True, text="1", features="1", label_column="2", text_buckets=64, validation=0, test=0.5
    )
    dataset = load(tmp_path / "a.tsv", options)
    inputs = everything(through_json(dataset.encoder), tmp_path / "a.tsv")
    assert inputs.shape == (20, 64)
    assert torch.equal(inputs.sum(dim=1).sort()[0][:1], inputs.sum(dim=1).min()[None])
    assert (inputs > 0).sum(dim=1).tolist() == [2] * 20


def test_only_columns_that_are_used_are_asked_for(tmp_path: Path) -> None:
    rows = "".join(f"{i},remark {i},{i % 2}\n" for i in range(20))
    (tmp_path / "a.csv").write_text("x,comment,l\n" + rows)
    encoder = through_json(load(tmp_path / "a.csv", DataOptions(labels="l")).encoder)
    (tmp_path / "new.csv").write_text("x\n1\n2\n")
    assert everything(encoder, tmp_path / "new.csv").shape == (2, 2)


def test_arrays_for_a_model_of_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,l\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    np.savez(tmp_path / "new.npz", X=np.zeros((3, 1)))
    encoder = load(tmp_path / "a.csv", DataOptions(labels="l")).encoder
    with pytest.raises(UserError, match=r"must be a table \(\.csv, .*\), as the model was trained on one"):
        everything(encoder, tmp_path / "new.npz")


def test_cells_that_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,l\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    encoder = load(tmp_path / "a.csv", DataOptions(labels="l")).encoder
    (tmp_path / "new.csv").write_text("x\n1\nmany\n")
    with pytest.raises(UserError, match=r"new\.csv has 'many' in row 2 of the column 'x'"):
        everything(encoder, tmp_path / "new.csv")


def test_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(3, 2, size=(40, 5)), np.eye(2)[np.arange(40) % 2]
    X[2, 3] = np.nan
    np.savez(tmp_path / "a.npz", X=X, Y=Y)
    np.savez(tmp_path / "test.npz", X=X[:4], Y=Y[:4])
    dataset = load(tmp_path / "a.npz", DataOptions(test_file=tmp_path / "test.npz", validation=0))
    encoder = through_json(dataset.encoder)
    np.savez_compressed(tmp_path / "new.npz", X=X)
    assert torch.equal(everything(encoder, tmp_path / "new.npz"), train_inputs(dataset))
    np.savez(tmp_path / "new.npz", X=X[:, :4])
    with pytest.raises(UserError, match="must have 5 features per row"):
        everything(encoder, tmp_path / "new.npz")
    with pytest.raises(UserError, match=r"must be an \.npz or \.arff file"):
        everything(encoder, tmp_path / "new.csv")


@pytest.mark.parametrize("shape", [(40, 5), (40, 6, 6)])
def test_arrays_of_another_name(tmp_path: Path, shape: tuple[int, ...]) -> None:
    X, Y = np.random.default_rng(0).random(shape), np.eye(2)[np.arange(40) % 2]
    np.savez(tmp_path / "a.npz", X=X, Y=Y)
    np.savez(tmp_path / "new.npz", features=X)
    encoder = load(tmp_path / "a.npz").encoder
    with pytest.raises(UserError, match=r"no array 'X', .*features: save the inputs under that name"):
        everything(encoder, tmp_path / "new.npz")


def test_sparse_arrays_whichever_way_they_are_stored(tmp_path: Path) -> None:
    X = csr_array(random_array((40, 50), density=0.1, rng=np.random.default_rng(0)))
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    stored = {f"X_{name}": value for name, value in parts.items()}
    np.savez(tmp_path / "a.npz", Y=np.eye(2)[np.arange(40) % 2], **stored)
    options = DataOptions(test_file=tmp_path / "a.npz", validation=0)
    dataset = load(tmp_path / "a.npz", options)
    encoder = through_json(dataset.encoder)
    sparse = everything(encoder, tmp_path / "a.npz")
    assert torch.equal(sparse, train_inputs(dataset))
    np.savez(tmp_path / "dense.npz", X=X.toarray())
    assert torch.allclose(everything(encoder, tmp_path / "dense.npz"), sparse)


def test_arff_files_with_or_without_labels(tmp_path: Path) -> None:
    header = "@relation r\n@attribute a numeric\n@attribute k {x,y,z}\n"
    rows = [f"{i},{'xyz'[i % 3]}" for i in range(20)]
    labelled = "\n".join(f"{row},{i % 2}" for i, row in enumerate(rows))
    (tmp_path / "a.arff").write_text(f"{header}@attribute l {{0,1}}\n@data\n{labelled}\n")
    options = DataOptions(labels="l", test_file=tmp_path / "a.arff", validation=0)
    dataset = load(tmp_path / "a.arff", options)
    encoder = through_json(dataset.encoder)
    assert torch.equal(everything(encoder, tmp_path / "a.arff"), train_inputs(dataset))
    (tmp_path / "new.arff").write_text(f"{header}@data\n" + "\n".join(rows))
    assert torch.equal(everything(encoder, tmp_path / "new.arff"), train_inputs(dataset))
    (tmp_path / "new.arff").write_text("@relation r\n@attribute a numeric\n@data\n1\n")
    with pytest.raises(UserError, match="lacks the features k=x, k=y, k=z"):
        everything(encoder, tmp_path / "new.arff")


def test_images_from_arrays_files_folders_and_lists(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(256, size=(20, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", X=pixels, Y=np.eye(2)[np.arange(20) % 2])
    options = DataOptions(test_file=tmp_path / "a.npz", validation=0, augment="none")
    dataset = load(tmp_path / "a.npz", options)
    encoder = through_json(dataset.encoder)
    assert encoder == dataset.encoder
    expected = train_inputs(dataset)
    assert torch.equal(everything(encoder, tmp_path / "a.npz"), expected)
    folder = tmp_path / "images"
    folder.mkdir()
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(folder / f"{number:02}.png")
    assert torch.equal(everything(encoder, folder), expected)
    assert torch.equal(everything(encoder, folder / "03.png"), expected[3:4])
    (folder / "list.txt").write_text("03.png\n01.png 7 8\n")
    assert torch.equal(everything(encoder, folder / "list.txt"), expected[[3, 1]])
    (folder / "list.csv").write_text("path\n02.png\n")
    assert torch.equal(everything(encoder, folder / "list.csv"), expected[[2]])
    for content, sentence in (("../a.npz\n", "not a path below"), ("gone.png\n", "there is no file")):
        (folder / "list.txt").write_text(content)
        with pytest.raises(UserError, match=sentence):
            everything(encoder, folder / "list.txt")
    (folder / "list.csv").write_text("name\n02.png\n")
    with pytest.raises(UserError, match="no column 'path'"):
        everything(encoder, folder / "list.csv")
    with pytest.raises(UserError, match="there are no images in the folder"):
        everything(encoder, tmp_path)
    with pytest.raises(UserError, match="must be an image, a folder"):
        everything(encoder, tmp_path / "a.xyz")


def test_images_of_another_size_are_scaled(tmp_path: Path) -> None:
    encoder = load("digits").encoder
    np.savez(tmp_path / "a.npz", X=np.full((3, 24, 24), 255, dtype=np.uint8))
    assert everything(through_json(encoder), tmp_path / "a.npz").shape == (3, 1, 12, 12)
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 24, 24, 3), dtype=np.uint8))
    with pytest.raises(UserError, match="must hold images of 1 channels, got 3"):
        everything(encoder, tmp_path / "a.npz")


def test_unknown_kinds() -> None:
    with pytest.raises(UserError, match="encoder of kind 'audio'"):
        Encoder.from_json({"kind": "audio"})
