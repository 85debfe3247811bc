"""Users' .npz files: arrays, CSR parts and images; and files that lie, are cut off, or hold objects."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, random_array

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, Encoder, load
from tailmask.data.readers.npz import Npz

RNG = np.random.default_rng(0)


def csr_parts(name: str, matrix: csr_array) -> dict[str, np.ndarray]:
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    return {f"{name}_{part}": np.asarray(value) for part, value in parts.items()}


def sparse_features(number: int = 60, width: int = 30) -> csr_array:
    return csr_array(random_array((number, width), density=0.2, rng=np.random.default_rng(1)))


def labels(number: int = 60, num_classes: int = 4) -> np.ndarray:
    return (np.random.default_rng(2).random((number, num_classes)) < 0.4).astype(np.int8)


def test_dense_features_are_standardised_by_the_training_rows(tmp_path: Path) -> None:
    X = RNG.normal(5, 3, size=(60, 7))
    X[3, 2] = np.nan
    np.savez(tmp_path / "a.npz", X=X, Y=labels(), classes=np.array(["a", "b", "c", "d"]))
    dataset = load(tmp_path / "a.npz")
    assert dataset.classes == ("a", "b", "c", "d")
    inputs = dataset.train.inputs
    assert inputs.dtype == torch.float32
    known = inputs[inputs != 0].numel()
    assert known >= inputs.numel() - 1
    assert inputs[:, [0, 1, 3]].mean(dim=0).abs().max() < 1e-6
    assert (inputs[:, [0, 1, 3]].std(dim=0, correction=0) - 1).abs().max() < 1e-6
    assert sum(len(split) for split in dataset.splits.values()) == 60
    assert dataset.notes == ("1 values are missing and taken as the mean of their feature",)


def test_another_value_of_a_constant_feature_is_not_blown_up(tmp_path: Path) -> None:
    X = np.column_stack([np.full(60, 0.1), RNG.normal(size=60), np.full(60, np.nan)])
    np.savez(tmp_path / "a.npz", X=X, Y=labels())
    np.savez(tmp_path / "t.npz", X=np.array([[0.2, 0.0, 3.0]]), Y=labels(1))
    dataset = load(tmp_path / "a.npz", DataOptions(test_file=tmp_path / "t.npz"))
    assert dataset.train.inputs[:, 0].abs().max() < 1e-12
    assert dataset.test.inputs[0, [0, 2]].tolist() == pytest.approx([0.1, 0.0])


def test_sparse_features_are_scaled_by_their_known_values(tmp_path: Path) -> None:
    X = sparse_features()
    X.data[:] = 50.0
    X.data[0] = np.nan
    np.savez(tmp_path / "a.npz", **csr_parts("X", X), Y=labels())
    inputs = load(tmp_path / "a.npz", DataOptions(validation=0)).train.inputs
    assert set(np.unique(inputs.data)) <= {0.0, 1.0}


def test_sparse_features_stay_sparse_and_are_scaled(tmp_path: Path) -> None:
    X, Y = sparse_features(), labels()
    np.savez(tmp_path / "a.npz", **csr_parts("X", X), **csr_parts("Y", csr_array(Y)))
    dataset = load(tmp_path / "a.npz")
    assert isinstance(dataset.train.inputs, csr_array)
    assert abs(dataset.train.inputs).max() == pytest.approx(1.0)
    assert dataset.shape == (30,)
    batch, targets = dataset.train.batch(torch.arange(5))
    assert batch.shape == (5, 30)
    assert targets.shape == (5, 4)
    total = sum(split.counts()[1] for split in dataset.splits.values())
    assert total.tolist() == Y.sum(axis=0).tolist()


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((40, 9, 8), (1, 9, 8)),
        ((40, 9, 8, 3), (3, 9, 8)),
        ((40, 3, 9, 8), (3, 9, 8)),
        ((40, 9, 8, 1), (1, 9, 8)),
    ],
)
def test_images_in_the_usual_layouts(
    tmp_path: Path, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    pixels = RNG.integers(256, size=shape, dtype=np.uint8)
    np.savez_compressed(tmp_path / "a.npz", images=pixels, labels=labels(40))
    options = DataOptions(inputs="images", targets="labels", augment="none")
    dataset = load(tmp_path / "a.npz", options)
    assert dataset.shape == dataset.encoder.shape == expected
    smaller = load(tmp_path / "a.npz", DataOptions(inputs="images", targets="labels", image_size=4))
    assert smaller.shape == (expected[0], 4, 4)
    assert smaller.train.inputs.augment is not None
    assert dataset.train.inputs.augment is None
    assert smaller.test.inputs.augment is None


def test_float_images_in_the_unit_interval(tmp_path: Path) -> None:
    pixels = RNG.integers(256, size=(30, 6, 6), dtype=np.uint8)
    np.savez(tmp_path / "bytes.npz", X=pixels, Y=labels(30))
    np.savez(tmp_path / "floats.npz", X=pixels / 255.0, Y=labels(30))
    one, other = load(tmp_path / "bytes.npz"), load(tmp_path / "floats.npz")
    assert torch.equal(one.train.inputs.pixels, other.train.inputs.pixels)


def test_one_class_a_sample_by_number_or_name(tmp_path: Path) -> None:
    X, y = RNG.normal(size=(90, 3)), np.arange(90) % 3
    np.savez(tmp_path / "numbers.npz", X=X, Y=y, classes=np.array(["x", "y", "z"]))
    np.savez(tmp_path / "names.npz", X=X, Y=np.array(["x", "y", "z"])[y])
    one, other = load(tmp_path / "numbers.npz"), load(tmp_path / "names.npz")
    assert one.classes == other.classes == ("x", "y", "z")
    assert one.single_label
    assert other.single_label
    assert torch.equal(one.train.targets, other.train.targets)


def test_files_for_testing_and_validation(tmp_path: Path) -> None:
    for name, number in (("train", 50), ("valid", 20), ("test", 30)):
        np.savez(tmp_path / f"{name}.npz", X=RNG.normal(size=(number, 3)), Y=labels(number))
    options = DataOptions(test_file=tmp_path / "test.npz", validation_file=tmp_path / "valid.npz")
    dataset = load(tmp_path / "train.npz", options)
    assert {name: len(split) for name, split in dataset.splits.items()} == {
        "train": 50,
        "validation": 20,
        "test": 30,
    }
    np.savez(tmp_path / "test.npz", X=RNG.normal(size=(9, 4)), Y=labels(9))
    with pytest.raises(UserError, match="must have 3 features per row"):
        load(tmp_path / "train.npz", options)
    np.savez(tmp_path / "test.npz", X=RNG.normal(size=(9, 3)), Y=labels(9, 5))
    with pytest.raises(UserError, match="does not have the classes of"):
        load(tmp_path / "train.npz", options)


def test_the_split_is_recorded_and_follows_the_seed(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=RNG.normal(size=(60, 3)), Y=labels())
    first, again = load(tmp_path / "a.npz"), load(tmp_path / "a.npz")
    other = load(tmp_path / "a.npz", DataOptions(data_seed=1))
    assert first.source == again.source
    assert first.source["splits"]["test"]["rows"] != other.source["splits"]["test"]["rows"]
    assert first.source["splits"]["test"]["sha256"] == other.source["splits"]["test"]["sha256"]
    none = load(tmp_path / "a.npz", DataOptions(validation=0, test=0.5))
    assert none.validation is None
    assert abs(len(none.test) - 30) < 5


def test_shares_are_of_all_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=RNG.normal(size=(2000, 2)), Y=labels(2000))
    dataset = load(tmp_path / "a.npz")
    assert len(dataset.test) == pytest.approx(400, abs=12)
    assert len(dataset.validation) == pytest.approx(200, abs=12)


class Evil:
    def __reduce__(self) -> tuple:
        return (Path.touch, (Path("/tmp/tailmask-was-here"),))


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    marker = Path("/tmp/tailmask-was-here")
    marker.unlink(missing_ok=True)
    np.savez(tmp_path / "a.npz", X=np.array([Evil()] * 3, dtype=object), Y=labels(3))
    with pytest.raises(UserError, match="'X' holds Python objects, which could run code"):
        load(tmp_path / "a.npz")
    assert not marker.exists()


def npy_header(shape: tuple[int, ...], dtype: str = "<f4") -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("member", "sentence"),
    [
        (npy_header((10**12, 10)) + b"\0" * 400, "claims 40000000000000 bytes, which the file does not hold"),
        (npy_header((10, 10)) + b"\0" * 399, "claims 400 bytes"),
        (npy_header((10, 10)) + b"\0" * 401, "claims 400 bytes"),
        (npy_header((-10, -10)) + b"\0" * 400, "must hold numbers or text|cannot be read"),
        (npy_header((10, 10), "<c8") + b"\0" * 800, "must hold numbers or text"),
        (b"\x93NUMPY\x01\x00\x10\x00{'descr': 'oops'", "cannot be read at 'X'"),
        (b"no array", "cannot be read at 'X'"),
        (b"", "cannot be read at 'X'"),
    ],
)
def test_lying_and_broken_members(tmp_path: Path, member: bytes, sentence: str) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", member)
        archive.writestr("Y.npy", npy_header((10, 2)) + b"\0" * 80)
    with pytest.raises(UserError, match=sentence) as error:
        load(path)
    assert "\n" not in str(error.value)


def test_a_bomb_is_refused_by_its_declared_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", lambda _: 1000)  # 1000 pages of 1000 bytes
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((1000, 1000), dtype=np.float32), Y=labels(1000))
    with pytest.raises(UserError, match=r"'X' needs 0\.0 GB, this machine has"):
        load(tmp_path / "a.npz")


def test_cut_and_corrupt_archives(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", X=RNG.normal(size=(50, 9)), Y=labels(50))
    whole = (tmp_path / "a.npz").read_bytes()
    for broken in (
        whole[: len(whole) // 2],
        whole[:200] + bytes(300) + whole[500:],
        b"",
        b"PK\x05\x06" + bytes(18),
    ):
        (tmp_path / "a.npz").write_bytes(broken)
        with pytest.raises(UserError, match=r"a\.npz") as error:
            load(tmp_path / "a.npz")
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"A": np.zeros(3)}, "has no array 'X', .*A.*--inputs"),
        ({"X": np.zeros((3, 2))}, "has no array 'Y', .*X.*--targets"),
        (
            {"X": np.zeros((3, 2)), "Y": np.eye(4)},
            "'X' and 'Y' must have the same number of rows, got 3 and 4",
        ),
        ({"X": np.zeros(3), "Y": np.eye(3)}, "must be rows of numbers, or images"),
        ({"X": np.zeros((3, 2)), "Y": np.zeros((3, 2, 2))}, "must have shape"),
        ({"X": np.zeros((3, 2)), "Y": np.array([0, -1, 1])}, "negative class"),
        ({"X": np.full((3, 2), np.inf), "Y": np.eye(3)}, "infinite numbers"),
        (
            {"X": np.zeros((3, 2)), "Y": np.eye(3), "classes": np.array(["a", "b"])},
            r"must have shape \(N, 2\)",
        ),
        ({"X": np.zeros((3, 2)), "Y": np.eye(3), "classes": np.array(["a", "b", "a"])}, "a class twice: a"),
        ({"X": np.zeros((0, 2)), "Y": np.zeros((0, 2))}, "has no rows"),
        ({"X": np.zeros((3, 5, 5, 7), dtype=np.uint8), "Y": np.eye(3)}, "1, 3 or 4 channels"),
    ],
)
def test_wrong_contents(tmp_path: Path, arrays: dict[str, np.ndarray], sentence: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(UserError, match=sentence):
        load(tmp_path / "a.npz")


@pytest.mark.parametrize("change", ["indices", "indptr", "shape"])
def test_broken_csr(tmp_path: Path, change: str) -> None:
    parts = csr_parts("X", sparse_features())
    parts[f"X_{change}"] = parts[f"X_{change}"] * 0 + 1000 if change != "shape" else np.array([2, 3])
    np.savez(tmp_path / "a.npz", Y=labels(), **parts)
    with pytest.raises(UserError, match="no valid CSR matrix 'X'"):
        load(tmp_path / "a.npz")
    with pytest.raises(UserError, match="no valid CSR matrix 'X'"):
        list(Npz(tmp_path / "a.npz").csr_rows("X", 7))


def test_a_matrix_that_claims_too_many_columns(tmp_path: Path) -> None:
    parts = csr_parts("Y", csr_array(labels()))
    parts["Y_shape"] = np.array([60, 10**12])
    np.savez(tmp_path / "a.npz", X=RNG.normal(size=(60, 3)), **parts)
    with pytest.raises(UserError, match="'Y' claims 1000000000000 columns"):
        load(tmp_path / "a.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_rows_piece_by_piece(tmp_path: Path, save) -> None:
    X, matrix = RNG.normal(size=(23, 3)), sparse_features(23)
    save(tmp_path / "a.npz", X=X, F=np.asfortranarray(X), **csr_parts("S", matrix))
    file = Npz(tmp_path / "a.npz")
    pieces = list(file.rows("X", 10))
    assert [len(piece) for piece in pieces] == [10, 10, 3]
    assert (np.concatenate(pieces) == X).all()
    rows = [piece.toarray() for piece in file.csr_rows("S", 9)]
    assert (np.concatenate(rows) == matrix.toarray()).all()
    assert (file.array("F") == X).all()
    assert (np.concatenate(list(file.rows("F", 10))) == X).all()
    np.savez(tmp_path / "b.npz", X=np.array(3.0))
    with pytest.raises(UserError, match="must hold rows"):
        next(Npz(tmp_path / "b.npz").rows("X", 10))


def test_uc_merced(real_data: Path) -> None:
    options = DataOptions(inputs="images", targets="labels", image_size=32)
    dataset = load(real_data / "ucm_multilabel" / "ucm_64.npz", options)
    assert dataset.shape == (3, 32, 32)
    assert len(dataset.classes) == 17
    assert dataset.classes[0] == "airplane"
    total = sum(split.counts()[1] for split in dataset.splits.values())
    assert (int(total.max()), int(total.min())) == (1300, 100)


def test_a_feature_that_is_empty_in_training_says_nothing(tmp_path: Path) -> None:
    X = RNG.normal(5, 3, size=(60, 3))
    X[:, 1] = np.nan
    test = X[:9].copy()
    test[:, 1] = [1e6, -3.0, np.nan, 0.0, 1e200, -1e200, 1.0, 2.0, 3.0]
    np.savez(tmp_path / "a.npz", X=X, Y=labels())
    np.savez(tmp_path / "t.npz", X=test, Y=labels(9))
    dataset = load(tmp_path / "a.npz", DataOptions(test_file=tmp_path / "t.npz", validation=0))
    assert torch.equal(dataset.test.inputs, dataset.train.inputs[:9])
    encoder = Encoder.from_json(json.loads(json.dumps(dataset.encoder.to_json(), allow_nan=False)))
    (new,) = encoder.batches(tmp_path / "t.npz", 9)
    assert torch.equal(new, dataset.test.inputs)
