"""Copies of a row stay in one part of a split; a note counts test rows that are also in training."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from scipy.sparse import csr_array, random_array

from tailmask.data import DataOptions, Dataset, load
from tailmask.data.copied_rows import copy_groups, row_keys
from tailmask.data.splits import stratified

DISTINCT, TIMES = 200, 3


def csr_parts(matrix: csr_array) -> dict[str, np.ndarray]:
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    return {f"X_{name}": np.asarray(part) for name, part in parts.items()}


def features(rows: int = DISTINCT) -> np.ndarray:
    values = np.random.default_rng(0).normal(size=(rows, 4)).round(3)
    values[:, 3] = np.arange(rows)  # tells the distinct rows apart
    return values


def targets(rows: int = DISTINCT) -> np.ndarray:
    draws = np.random.default_rng(1).random((rows, 3))
    return (draws < [0.5, 0.2, 0.08]).astype(np.int8)


def save(path: Path, form: str, X: np.ndarray, Y: np.ndarray) -> tuple[Path, DataOptions]:
    """The same rows as an array, CSR parts, an ARFF file or a table, and the options to read them with."""
    labels = DataOptions(labels="l*")
    if form in ("dense", "csr"):
        path = path.with_suffix(".npz")
        np.savez(path, Y=Y, **({"X": X} if form == "dense" else csr_parts(csr_array(X))))
        return path, DataOptions()
    if form == "arff":
        path = path.with_suffix(".arff")
        names = [f"@attribute x{i} numeric" for i in range(4)] + [
            f"@attribute l{i} {{0,1}}" for i in range(3)
        ]
        rows = [",".join(map(str, [*x, *y])) for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
        path.write_text("\n".join(["@relation r", *names, "@data", *rows]))
        return path, labels
    path = path.with_suffix(".csv")
    frame = pl.DataFrame(
        {f"x{i}": X[:, i] for i in range(4)}
        | {"word": [f"w{x:.0f}" for x in X[:, 3]], "note": [f"remark {i}" for i in range(len(X))]}
        | {f"l{i}": Y[:, i] for i in range(3)}
    )
    frame.write_csv(path)
    return path, labels


def rows_of(dataset: Dataset, name: str) -> set[bytes]:
    split = dataset.splits[name]
    return {row.tobytes() for row in split.batch(torch.arange(len(split)))[0].numpy()}


FORMS = ["dense", "csr", "arff", "table"]


@pytest.mark.parametrize("form", FORMS)
def test_copies_stay_in_one_part(tmp_path: Path, form: str) -> None:
    X, Y = np.tile(features(), (TIMES, 1)), np.tile(targets(), (TIMES, 1))
    dataset = load(*save(tmp_path / "a", form, X, Y))
    parts = [rows_of(dataset, name) for name in dataset.splits]
    assert sum(map(len, parts)) == len(set().union(*parts)) == DISTINCT
    told = [note for note in dataset.notes if "same features" in note]
    assert len(told) == 1
    assert re.findall(r"\d+", told[0]) == [str(DISTINCT * (TIMES - 1))]
    sizes = {name: len(split) / len(X) for name, split in dataset.splits.items()}
    assert sizes == pytest.approx({"train": 0.7, "validation": 0.1, "test": 0.2}, abs=0.02)
    shares = dataset.test.counts()[1].numpy() / Y.sum(axis=0)
    assert shares.tolist() == pytest.approx([0.2] * 3, abs=0.06)


@pytest.mark.parametrize(("options", "told"), [({}, ["400"]), ({"features": "id,x*"}, [])])
def test_a_column_of_ids_does_not_hide_copies(tmp_path: Path, options: dict[str, str], told: list) -> None:
    """An ID is no feature, unless the user names it."""
    path, _ = save(tmp_path / "a", "table", np.tile(features(), (TIMES, 1)), np.tile(targets(), (TIMES, 1)))
    pl.read_csv(path).with_row_index("id").write_csv(path)
    notes = load(path, DataOptions(labels="l*", **options)).notes
    assert [re.findall(r"\d+", note)[0] for note in notes if "same features" in note] == told


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_a_test_file_that_are_in_training_are_counted_and_kept(tmp_path: Path, form: str) -> None:
    X, Y = features(), targets()
    other = features(20) + 0.5
    held_out = np.concatenate([X[:30], other])
    path, options = save(tmp_path / "a", form, X, Y)
    test, _ = save(tmp_path / "t", form, held_out, targets(50))
    dataset = load(path, DataOptions(labels=options.labels, test_file=test, validation=0))
    assert len(dataset.test) == 50
    told = [note for note in dataset.notes if "same features" in note]
    assert len(told) == 1
    assert re.findall(r"\d+", told[0]) == ["30", "50"]


@pytest.mark.parametrize("form", FORMS)
def test_without_copies_nothing_is_said_and_the_split_is_the_plain_one(tmp_path: Path, form: str) -> None:
    X, Y = features(), targets()
    dataset = load(*save(tmp_path / "a", form, X, Y))
    assert not [note for note in dataset.notes if "same features" in note]
    _, held_out = stratified(torch.from_numpy(Y), 0.2, seed=0)
    assert torch.equal(dataset.test.targets, torch.from_numpy(Y[held_out]))


def test_coarse_features_are_split_as_before(tmp_path: Path) -> None:
    """Rows of a few categories have the same features by chance: no part could get its share of them."""
    rng = np.random.default_rng(0)
    X, Y = rng.integers(0, 3, size=(600, 3)).astype(float), targets(600)
    np.savez(tmp_path / "a.npz", X=X, Y=Y)
    dataset = load(tmp_path / "a.npz")
    _, held_out = stratified(torch.from_numpy(Y), 0.2, seed=0)
    assert torch.equal(dataset.test.targets, torch.from_numpy(Y[held_out]))
    assert any("600 rows" in note and "only 27 different" in note for note in dataset.notes)


def test_an_official_pair_keeps_its_validation_part(tmp_path: Path) -> None:
    X, Y = np.tile(features(), (2, 1)), np.tile(targets(), (2, 1))
    path, options = save(tmp_path / "set-train", "arff", X, Y)
    save(tmp_path / "set-test", "arff", features(20) + 0.5, targets(20))
    dataset = load(path, options)
    _, held_out = stratified(torch.from_numpy(Y), 0.1, seed=0)
    assert torch.equal(dataset.validation.targets, torch.from_numpy(Y[held_out]))
    assert any("rows of validation have the same features" in note for note in dataset.notes)


def test_images_that_are_listed_twice(tmp_path: Path) -> None:
    for number in range(60):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / f"{number}.png")
    lines = [f"{'./' * time}{number}.png {number % 2}" for time in range(2) for number in range(60)]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    dataset = load(tmp_path / "list.txt", DataOptions(image_size=4))
    names = [{name.lstrip(b"./") for name in split.inputs.names} for split in dataset.splits.values()]
    assert sum(map(len, names)) == 60
    (tmp_path / "test.txt").write_text("3.png 1\n4.png 0\n")
    told = load(tmp_path / "list.txt", DataOptions(test_file=tmp_path / "test.txt", validation=0)).notes
    assert any(note.startswith("2 of the 2 rows of test") for note in told)


def test_groups_of_a_user_stay_together_and_labels_are_stratified() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 400, size=3000) * 7 + 5  # any numbers
    labels = torch.from_numpy((rng.random((3000, 4)) < [0.5, 0.2, 0.1, 0.05]).astype(np.int8))
    kept, held_out = stratified(labels, 0.2, seed=0, groups=groups)
    assert sorted([*kept, *held_out]) == list(range(3000))
    assert not set(groups[kept]) & set(groups[held_out])
    assert len(held_out) / 3000 == pytest.approx(0.2, abs=0.02)
    shares = labels[held_out].sum(dim=0) / labels.sum(dim=0)
    assert (shares - 0.2).abs().max() < 0.06


@pytest.mark.parametrize("number", [500, 120_000])
def test_groups_of_one_row_change_nothing(number: int) -> None:
    labels = torch.from_numpy((np.random.default_rng(0).random((number, 3)) < 0.3).astype(np.int8))
    plain, grouped = (stratified(labels, 0.2, 3, groups=g) for g in (None, np.arange(number)[::-1] * 2))
    assert all(np.array_equal(a, b) for a, b in zip(plain, grouped, strict=True))


def test_one_large_group_does_not_fill_the_test_part() -> None:
    groups = np.concatenate([np.zeros(300, dtype=np.int64), np.arange(1, 701)])
    labels = torch.from_numpy((np.random.default_rng(0).random((1000, 2)) < 0.3).astype(np.int8))
    for seed in range(5):
        held_out = stratified(labels, 0.2, seed, groups=groups)[1]
        assert 0 not in groups[held_out]


def test_keys_are_equal_exactly_where_rows_are() -> None:
    """Against NumPy's own comparison, and the same dense as sparse."""
    rng = np.random.default_rng(0)
    for values in (
        rng.integers(0, 3, size=(5000, 6)),
        random_array(
            (5000, 40), density=0.05, rng=rng, data_sampler=lambda size: rng.integers(1, 3, size=size)
        )
        .toarray()
        .astype(np.float32),
        rng.integers(0, 2, size=(5000, 12)).astype(bool),
        np.where(rng.random((2000, 3)) < 0.3, np.nan, rng.integers(-2, 2, size=(2000, 3)) * 1.0),
    ):
        _, expected = np.unique(
            np.nan_to_num(values.astype(float), nan=99) + 0.0, axis=0, return_inverse=True
        )
        keys = row_keys(values)
        groups = copy_groups(keys)
        pairs = len(np.unique(np.stack([expected.reshape(-1), groups]), axis=1).T)
        assert len(np.unique(expected)) == len(np.unique(groups)) == pairs
        assert np.array_equal(row_keys(csr_array(values)), keys)


def test_a_few_copies_do_not_change_the_rest_of_the_split() -> None:
    labels = torch.from_numpy((np.random.default_rng(0).random((1000, 3)) < 0.3).astype(np.int8))
    _, plain = stratified(labels, 0.2, 0)
    kept = np.setdiff1d(np.arange(1000), plain)
    groups = np.arange(1000)
    groups[plain[0]] = kept[0]  # one pair that the plain split divides, and one that it does not
    groups[plain[2]] = plain[1]
    assert stratified(labels, 0.2, 0, groups=groups)[1].tolist() == plain[1:].tolist()
