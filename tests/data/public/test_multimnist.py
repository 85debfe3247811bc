"""MultiMNIST against the paper's counts on the real files, and its images against loops."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.data.class_statistics import summarize
from tailmask.data.public.longtail import long_tail_counts
from tailmask.data.public.multimnist import ShiftedPairs, validation_pairs
from tailmask.data.public.portable_draws import Draws
from tailmask.data.readers.idx import read_idx

PAPER_TEST_COUNTS = (17840, 19080, 18256, 18080, 17856, 17136, 17664, 18224, 17792, 18072)


@pytest.fixture(scope="module")
def multimnist(real_data: Path):
    return load("multimnist", DataOptions(data_dir=real_data, download=False))


def test_the_papers_counts(multimnist) -> None:
    assert len(multimnist.train) == 14694
    assert len(multimnist.test) == 90000
    assert summarize(multimnist.test, multimnist.classes).positives == PAPER_TEST_COUNTS
    assert (multimnist.test.targets.sum(dim=1) == 2).all()
    assert set(multimnist.train.targets.sum(dim=1).tolist()) == {1, 2}
    assert multimnist.validation is None


def test_same_bytes_on_every_machine(multimnist) -> None:
    assert multimnist.source["digest"][:16] == "b478e435d94e2cdd"


def test_images_are_two_shifted_digits(multimnist, real_data: Path) -> None:
    with gzip.open(real_data / "mnist" / "t10k-images-idx3-ubyte.gz") as file:
        raw = np.frombuffer(file.read()[16:], dtype=np.uint8).reshape(-1, 28, 28).astype(int)
    with gzip.open(real_data / "mnist" / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read()[8:], dtype=np.uint8)
    inputs, targets = multimnist.test.batch(torch.tensor([0, 50_000]))
    assert inputs.shape == (2, 1, 32, 32)
    # The first test images lead with the first digits that are not 0, each beside a zero.
    lead = np.flatnonzero(labels != 0)[0]
    image = (inputs[0, 0].numpy() * 255).round().astype(int)
    assert targets[0].nonzero().flatten().tolist() == [0, labels[lead]]
    padded = np.pad(raw[lead], 8)  # room to cut from: 2 of padding and 6 of shift
    windows = [padded[t : t + 32, w : w + 32] for t in range(13) for w in range(13)]
    assert sum((window <= image).all() for window in windows) >= 1


def test_mean_imbalance_over_seeds() -> None:
    """The pairing alone, as the images do not matter: ρ is 81 ± 4 over 20 seeds."""
    labels = np.repeat(np.arange(10), long_tail_counts(5923, 10, 100))
    extremes = {}
    for seed in (*range(20), 94):
        draws = Draws(seed, 0)
        draws.permutation(60000)
        partners = labels[draws.below(len(labels), len(labels))]
        extremes[seed] = [int(((labels == c) | (partners == c)).sum()) for c in (0, 9)]
    assert 77 <= np.mean([extremes[seed][0] / extremes[seed][1] for seed in range(20)]) <= 85
    assert extremes[94] == [9508, 105]  # the draw that is nearest to the paper's


@pytest.fixture(scope="module")
def varied(real_data: Path):
    return load(
        "multimnist", DataOptions(data_dir=real_data, download=False, validation=0.1, fresh_shifts=True)
    )


def test_validation_is_long_tailed_and_changes_nothing_else(multimnist, varied) -> None:
    assert len(varied.validation) == 1469
    assert torch.equal(varied.test.inputs.pixels, multimnist.test.inputs.pixels)
    assert torch.equal(varied.test.targets, multimnist.test.targets)
    statistics = summarize(varied.validation, varied.classes)
    assert statistics.order[:3] == (0, 1, 2)
    assert min(statistics.positives) > 0


def test_fresh_shifts_move_the_same_digits(multimnist, varied) -> None:
    index = torch.arange(64)
    still, _ = multimnist.train.batch(index)
    assert torch.equal(varied.train.batch(index)[0], still)  # without a generator: the fixed images
    first, again, other = (varied.train.batch(index, torch.Generator().manual_seed(s))[0] for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, still)
    assert torch.equal(varied.train.targets, multimnist.train.targets)
    assert varied.train.shape == (1, 32, 32)


def test_validation_digits_are_unused_but_for_zeros(varied, real_data: Path) -> None:
    train = varied.train.inputs
    used = set(train.pairs.flatten().tolist())
    assert len(used) == 14694
    labels = read_idx(real_data / "mnist" / "train-labels-idx1-ubyte.gz", num_dimensions=1).astype(np.int64)
    by_class = [np.flatnonzero(labels == c) for c in range(10)]
    pairs = validation_pairs(by_class, [5923, *[4000] * 9], 500, Draws(0))
    for c in range(1, 10):
        chosen = pairs[labels[pairs] == c]
        assert not set(chosen.tolist()) & set(by_class[c][:4000].tolist())
    assert np.isin(pairs[labels[pairs] == 0], by_class[0]).all()


def test_shifts_reach_every_place() -> None:
    digit = torch.zeros(1, 28, 28, dtype=torch.uint8)
    digit[0, 14, 14] = 255
    pairs = ShiftedPairs(digit, torch.zeros(4000, 2, dtype=torch.int64), torch.full((4000, 2, 2), 2))
    images = pairs.batch(torch.arange(4000), torch.Generator().manual_seed(0))
    rows, columns = images.amax(dim=(0, 1)).nonzero(as_tuple=True)
    assert (rows.min(), rows.max()) == (14 + 2 - 6, 14 + 2 + 6)
    assert (columns.min(), columns.max()) == (14 + 2 - 6, 14 + 2 + 6)


def test_too_few_digits_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    for part in ("train", "t10k"):
        images, labels = np.zeros((10, 28, 28), dtype=np.uint8), np.arange(10, dtype=np.uint8)
        header = struct.pack(">4B3I", 0, 0, 8, 3, 10, 28, 28)
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + images.tobytes()))
        header = struct.pack(">4BI", 0, 0, 8, 1, 10)
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(header + labels.tobytes()))
    with pytest.raises(UserError, match="has 1 training images of digit 0, not 5923"):
        load("multimnist", DataOptions(data_dir=tmp_path, download=False))
