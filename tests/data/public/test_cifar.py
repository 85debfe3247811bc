"""Long-tailed CIFAR: the published totals on the real files, and the format on small ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.data.public.cifar import long_tail_rows, read_cifar
from tailmask.data.public.longtail import long_tail_counts

TOTALS = {"cifar10-lt": {10: 20431, 100: 12406}, "cifar100-lt": {10: 19573, 100: 10847}}


def write_cifar10(folder: Path, counts: list[int], *, seed: int = 0) -> np.ndarray:
    """A CIFAR-10 with few images a class, in random order; returns the training records."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.repeat(np.arange(10), counts)).astype(np.uint8)
    records = generator.integers(256, size=(len(labels), 3073), dtype=np.uint8)
    records[:, 0] = labels
    folder.mkdir(parents=True)
    for number, part in enumerate(np.array_split(records, 5), 1):
        part.tofile(folder / f"data_batch_{number}.bin")
    records[:7].tofile(folder / "test_batch.bin")
    (folder / "batches.meta.txt").write_text("\n".join(f"class{c}" for c in range(10)) + "\n\n")
    return records


@pytest.mark.parametrize("name", TOTALS)
def test_published_totals(real_data: Path, name: str) -> None:
    for rho in (10, 100):
        total = TOTALS[name][rho]
        dataset = load(name, DataOptions(data_dir=real_data, download=False, rho=rho))
        assert len(dataset.train) == total
        largest = 5000 if name == "cifar10-lt" else 500
        expected = long_tail_counts(largest, len(dataset.classes), rho)
        assert dataset.train.counts()[1].tolist() == expected
        assert set(dataset.test.counts()[1].tolist()) == {10000 // len(dataset.classes)}
        assert dataset.single_label


def test_too_few_images_name_class_and_count(real_data: Path) -> None:
    with pytest.raises(UserError, match="class 'automobile' has 3871 training images, rho 1 asks for 5000"):
        load("cifar10-lt", DataOptions(data_dir=real_data, download=False, rho=1))


def test_the_first_images_of_each_class_are_kept() -> None:
    labels = np.random.default_rng(0).integers(3, size=300)
    names = ["a", "b", "c"]
    train, held_out = long_tail_rows(labels, names, 80, rho=16, validation=0.1)
    for c, (number, held) in enumerate([(80, 8), (20, 2), (5, 0)]):
        first = [row for row in range(300) if labels[row] == c][:number]
        assert train[labels[train] == c].tolist() == first[: number - held]
        assert held_out[labels[held_out] == c].tolist() == first[number - held :]
    with pytest.raises(UserError, match=r"class 'a' has \d+ training images, rho 2 asks for 299"):
        long_tail_rows(labels, names, 299, rho=2, validation=0.0)


def test_validation_from_images_that_the_long_tail_leaves_unused(tmp_path: Path) -> None:
    tail = long_tail_counts(5000, 10, 5000)  # 5000, 1940, … 2, 1
    extra = [0, 9, 5, 4, 4, 4, 4, 4, 1, 0]
    folder = tmp_path / "cifar-10-batches-bin"
    records = write_cifar10(folder, [number + more for number, more in zip(tail, extra, strict=True)])
    options = DataOptions(data_dir=tmp_path, download=False, rho=5000)
    held_options = dataclasses.replace(
        options, validation=0.001, validation_from="unused"
    )  # 5 images a class
    plain, held = load("cifar10-lt", options), load("cifar10-lt", held_options)
    assert held.validation.counts()[1].tolist() == [0, 5, 5, 4, 4, 4, 4, 4, 1, 0]
    first = records[records[:, 0] == 1][tail[1] : tail[1] + 5, 1:]
    assert np.array_equal(held.validation.inputs.pixels[:5].flatten(1), first)
    assert torch.equal(held.train.inputs.pixels, plain.train.inputs.pixels)
    assert held.source.keys() - plain.source.keys() == {"unused"}
    assert held.source["digest"] == plain.source["digest"]


def test_validation_from_unused_images_needs_a_share_and_images(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--validation-from unused needs a share, as in --validation 0\.1"):
        DataOptions(validation_from="unused")
    write_cifar10(tmp_path / "cifar-10-batches-bin", long_tail_counts(5000, 10, 5000))
    options = DataOptions(data_dir=tmp_path, rho=5000, validation=0.1, validation_from="unused")
    with pytest.raises(UserError, match=r"rho 5000 leaves no training image of .* unused: take a larger rho"):
        load("cifar10-lt", options)


def test_images_augmentation_and_validation(real_data: Path) -> None:
    options = DataOptions(data_dir=real_data, download=False, rho=200)
    plain = load("cifar10-lt", options)
    held = load("cifar10-lt", DataOptions(data_dir=real_data, download=False, rho=200, validation=0.1))
    counts, expected = held.train.counts()[1], plain.train.counts()[1]
    assert (held.validation.counts()[1] == (expected * 0.1).int()).all()
    assert torch.equal(counts + held.validation.counts()[1], expected)
    index = torch.arange(32)
    varied, targets = plain.train.batch(index, torch.Generator().manual_seed(0))
    still, _ = plain.train.batch(index)
    assert varied.shape == still.shape == (32, 3, 32, 32)
    assert not torch.equal(varied, still)
    assert torch.equal(targets.sum(dim=1), torch.ones(32))
    unvaried, _ = plain.test.batch(index, torch.Generator().manual_seed(0))
    assert torch.equal(unvaried, plain.test.batch(index)[0])


def test_records_are_read_by_their_layout(tmp_path: Path) -> None:
    records = np.random.default_rng(0).integers(100, size=(4, 3074), dtype=np.uint8)
    records.tofile(tmp_path / "train.bin")
    pixels, labels = read_cifar(tmp_path / "train.bin", num_classes=100, label_bytes=2)
    assert labels.tolist() == records[:, 1].tolist()
    assert pixels[2, 1, 3, 5] == records[2, 2 + 1024 + 3 * 32 + 5]
    (tmp_path / "empty.bin").write_bytes(b"")
    assert len(read_cifar(tmp_path / "empty.bin", num_classes=100, label_bytes=2)[1]) == 0


def test_bad_records(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(b"\0" * 3072)
    with pytest.raises(UserError, match="3072 bytes, not a multiple of the record's 3073"):
        read_cifar(path, num_classes=10, label_bytes=1)
    path.write_bytes(b"\0" * 3073 + b"\x0a" + b"\0" * 3072)
    with pytest.raises(UserError, match="label 10 in record 1, but there are only 10 classes"):
        read_cifar(path, num_classes=10, label_bytes=1)


def test_pickles_are_named_and_not_opened(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(UserError, match=r"cifar-10-binary\.tar\.gz.*holds pickles, which can run code"):
        load("cifar10-lt", DataOptions(data_dir=tmp_path, download=False))
    with pytest.raises(UserError, match="may hold pickles, which can run code and are not read"):
        load(tmp_path / "cifar-10-batches-py" / "data_batch_1")


def test_class_names_must_be_whole(tmp_path: Path) -> None:
    write_cifar10(tmp_path / "cifar-10-batches-bin", [1] * 10)
    (tmp_path / "cifar-10-batches-bin" / "batches.meta.txt").write_text("cat dog")
    with pytest.raises(UserError, match="must name 10 classes, got 2"):
        load("cifar10-lt", DataOptions(data_dir=tmp_path, download=False))
