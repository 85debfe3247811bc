"""The embedded digits: their construction against loops, and the same bytes everywhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits as bundled

from tailmask.data import DataOptions, load
from tailmask.data.class_statistics import summarize
from tailmask.data.digests import digest
from tailmask.data.images.digit_pairs import one_of_each_other, place, superimpose, union
from tailmask.data.public.digits import partition
from tailmask.data.public.portable_draws import Draws


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def test_sizes_and_imbalance(digits) -> None:
    assert {name: len(split) for name, split in digits.splits.items()} == {
        "train": 3216,
        "validation": 603,
        "test": 5400,
    }
    train, validation, test = (summarize(split, digits.classes) for split in digits.splits.values())
    assert train.order == tuple(range(10))
    assert 14 < train.rho < 20  # pairs of equal digits take from the head
    assert set(test.positives) == {1080}
    assert min(validation.positives) >= 9
    assert max(train.positives) > len(digits.train) * 0.4
    assert digits.shape == digits.encoder.shape == (1, 12, 12)
    assert not digits.single_label


def test_same_bytes_on_every_machine(digits) -> None:
    pixels = [split.inputs.pixels for split in digits.splits.values()]
    targets = [split.targets for split in digits.splits.values()]
    assert digest(*pixels, *targets)[:16] == "874da995c46eaf35"


def test_another_seed_gives_other_images_of_the_same_kind(digits) -> None:
    other = load("digits", DataOptions(data_seed=1))
    assert len(other.train) == len(digits.train)
    assert not torch.equal(other.train.inputs.pixels, digits.train.inputs.pixels)


def test_validation_can_be_left_out(digits) -> None:
    without = load("digits", DataOptions(validation=0))
    assert without.validation is None
    assert torch.equal(without.train.inputs.pixels, digits.train.inputs.pixels)


def test_every_image_is_the_maximum_of_two_digits_of_its_labels(digits) -> None:
    """Each bundled digit that lies below an image, at any place, is a candidate; two must make the image."""
    raw, labels = bundled(return_X_y=True)
    raw = (raw.astype(int) * 255 // 16).reshape(-1, 8, 8)
    for split in digits.splits.values():
        for number in (0, len(split) // 2, len(split) - 1):
            image = split.inputs.pixels[number, 0].numpy().astype(int)
            below = []
            for top in range(5):
                for left in range(5):
                    window = image[top : top + 8, left : left + 8]
                    for index in np.flatnonzero((raw <= window).all(axis=(1, 2))):
                        canvas = np.zeros((12, 12), dtype=int)
                        canvas[top : top + 8, left : left + 8] = raw[index]
                        below.append((labels[index], canvas))
            wanted = set(split.targets[number].nonzero().flatten().tolist())
            made = [
                {int(a), int(b)}
                for a, one in below
                for b, two in below
                if (np.maximum(one, two) == image).all()
            ]
            assert wanted in made


def test_splits_share_no_digit() -> None:
    labels = bundled(return_X_y=True)[1]
    train, held_out, test = partition(labels, Draws(0))
    assert np.bincount(labels[train]).tolist() == [60, 43, 30, 22, 15, 11, 8, 5, 4, 3]
    assert (labels[held_out] == np.arange(10)[:, None]).all()
    assert np.bincount(labels[test]).tolist() == [60] * 10
    everything = np.concatenate([train, held_out.flatten(), test])
    assert len(set(everything.tolist())) == len(everything) == 201 + 200 + 600


def test_place_cuts_what_leaves_the_canvas() -> None:
    digit = np.arange(1, 10).reshape(3, 3)
    for top in range(-4, 6):
        for left in range(-4, 6):
            expected = np.zeros((13, 13), dtype=int)
            expected[4 + top : 7 + top, 4 + left : 7 + left] = digit
            placed = place(torch.from_numpy(digit)[None], torch.tensor([[top, left]]), 5)
            assert placed[0].tolist() == expected[4:9, 4:9].tolist()


def test_superimpose_takes_the_maximum() -> None:
    digits = torch.tensor([[[9, 1]], [[5, 5]]], dtype=torch.uint8)
    corners = torch.tensor([[[0, 0], [0, 0]]])
    assert superimpose(digits, torch.tensor([[0, 1]]), corners, size=2).tolist() == [[[[9, 5], [0, 0]]]]


def test_union_counts_equal_digits_once() -> None:
    assert union(np.array([3, 3, 1]), np.array([[0, 1], [0, 2]]), 4).tolist() == [[0, 0, 0, 1], [0, 1, 0, 1]]


def test_one_of_each_other_class() -> None:
    labels = np.repeat(np.arange(4), [5, 3, 2, 7])
    pairs = one_of_each_other(labels, Draws(0), num_classes=4)
    assert len(pairs) == 17 * 3
    for lead in range(17):
        partners = sorted(labels[pairs[pairs[:, 0] == lead, 1]])
        assert partners == [c for c in range(4) if c != labels[lead]]


def test_members_are_the_two_digits_of_each_test_image(digits) -> None:
    _, labels = bundled(return_X_y=True)
    members = digits.test.members
    assert digits.unit == "digit"
    assert len(np.unique(members)) == 600
    assert torch.equal(union(labels, members), digits.test.targets)
    images_of_a_digit = np.bincount(members.ravel())
    assert images_of_a_digit[members].min() >= 9  # as the first of a pair with each other class
