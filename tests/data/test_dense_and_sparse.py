"""The same numbers are the same inputs, whether a file holds them dense or sparse, by row or by column."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from tailmask.data import DataOptions, Dataset, Encoder, load

ROWS, WIDTH = 60, 5


def numbers(rows: int = ROWS) -> np.ndarray:
    """Features far from zero, some of them zero and some of them missing."""
    rng = np.random.default_rng(rows)
    values = rng.normal(20, 3, size=(rows, WIDTH)).round(3)
    values[rng.random(values.shape) < 0.3] = 0.0
    values[3, 2] = np.nan
    return values


def labels(rows: int = ROWS) -> np.ndarray:
    return np.eye(2, dtype=np.int8)[np.arange(rows) % 2]


def save(path: Path, values: np.ndarray, form: str) -> Path:
    return (save_npz if path.suffix == ".npz" else save_arff)(path, values, form)


def save_npz(path: Path, values: np.ndarray, form: str) -> Path:
    arrays = {"X": np.asfortranarray(values) if form == "fortran" else values}
    if form == "sparse":
        matrix = csr_array(values)
        parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
        arrays = {f"X_{name}": part for name, part in (parts | {"shape": np.array(values.shape)}).items()}
    np.savez(path, **arrays, Y=labels(len(values)))
    return path


def save_arff(path: Path, values: np.ndarray, form: str) -> Path:
    names = [f"@attribute x{number} numeric" for number in range(WIDTH)]
    rows = [
        ["?" if np.isnan(cell) else str(cell) for cell in row] + [str(label) for label in targets]
        for row, targets in zip(values, labels(len(values)), strict=True)
    ]
    if form == "sparse":
        written = (
            ", ".join(f"{place} {cell}" for place, cell in enumerate(row) if cell not in ("0", "0.0"))
            for row in rows
        )
        lines = [f"{{{row}}}" for row in written]
    else:
        lines = [",".join(row) for row in rows]
    header = ["@relation r", *names, "@attribute a {0,1}", "@attribute b {0,1}", "@data"]
    path.write_text("\n".join([*header, *lines]) + "\n")
    return path


def inputs(dataset: Dataset, name: str) -> torch.Tensor:
    split = dataset.splits[name]
    return split.batch(torch.arange(len(split)))[0]


@pytest.mark.parametrize("suffix", [".npz", ".arff"])
@pytest.mark.parametrize("fitted", ["dense", "sparse"])
def test_the_form_of_a_second_file_does_not_matter(tmp_path: Path, suffix: str, fitted: str) -> None:
    train = save(tmp_path / f"train{suffix}", numbers(), fitted)
    forms = {form: save(tmp_path / f"{form}{suffix}", numbers(20), form) for form in ("dense", "sparse")}
    options = {"labels": "a,b"} if suffix == ".arff" else {}
    loaded = {
        form: load(train, DataOptions(test_file=path, validation_file=path, **options))
        for form, path in forms.items()
    }
    for name in ("test", "validation"):
        assert torch.equal(inputs(loaded["dense"], name), inputs(loaded["sparse"], name))

    encoder = Encoder.from_json(json.loads(json.dumps(loaded["dense"].encoder.to_json())))
    for path in forms.values():
        predicted = torch.cat(list(encoder.batches(path, 7)))
        assert torch.equal(predicted, inputs(loaded["dense"], "test"))


def test_a_dense_model_standardises_sparse_rows(tmp_path: Path) -> None:
    """Against a mean and a deviation that are computed here."""
    train, values = numbers(), numbers(20)
    train[3, 2] = values[3, 2] = 1.0
    options = DataOptions(test_file=save(tmp_path / "t.npz", values, "sparse"), validation=0)
    dataset = load(save(tmp_path / "a.npz", train, "dense"), options)
    expected = (values - train.mean(axis=0)) / train.std(axis=0)
    np.testing.assert_allclose(inputs(dataset, "test").numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(ROWS, WIDTH), (ROWS, 6, 6)])
def test_arrays_that_are_stored_by_column(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)
    np.savez(tmp_path / "a.npz", X=np.asfortranarray(values), Y=labels())
    np.savez(tmp_path / "c.npz", X=values)
    encoder = load(tmp_path / "a.npz").encoder
    by_column = list(encoder.batches(tmp_path / "a.npz", 7))
    assert [len(batch) for batch in by_column] == [7] * 8 + [4]
    assert torch.equal(torch.cat(by_column), torch.cat(list(encoder.batches(tmp_path / "c.npz", 7))))
