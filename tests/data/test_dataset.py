"""Splits, their batches and their statistics, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from tailmask.data.class_statistics import co_occurrence, summarize
from tailmask.data.dataset import Dataset, Split
from tailmask.data.encoders.image import ImageEncoder
from tailmask.data.images.in_memory import Images, crop, crop_and_flip

TARGETS = torch.tensor([[1, 0, 1], [0, -1, 1], [1, 1, 1], [0, 0, 0]], dtype=torch.int8)


def test_float_inputs_come_as_they_are() -> None:
    inputs = torch.randn(4, 5)
    batch, targets = Split(inputs, TARGETS).batch(torch.tensor([3, 1, 1]))
    assert torch.equal(batch, inputs[[3, 1, 1]])
    assert targets.dtype == torch.float32
    assert targets.tolist() == [[0, 0, 0], [0, -1, 1], [0, -1, 1]]


def test_uint8_inputs_are_divided_by_255() -> None:
    batch, _ = Split(torch.tensor([[0], [51], [255], [102]], dtype=torch.uint8), TARGETS).batch(
        torch.arange(4)
    )
    assert batch.flatten().tolist() == pytest.approx([0.0, 0.2, 1.0, 0.4])


def test_sparse_inputs_and_targets_become_dense_in_the_batch() -> None:
    dense = np.array([[0, 1.5], [2, 0], [0, 0], [3, 4]], dtype=np.float32)
    labels = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=np.int8)
    split = Split(csr_array(dense), csr_array(labels))
    inputs, targets = split.batch(torch.tensor([3, 0]))
    assert inputs.tolist() == dense[[3, 0]].tolist()
    assert targets.tolist() == labels[[3, 0]].tolist()
    assert (len(split), split.num_classes, split.shape) == (4, 2, (2,))
    assert split.counts().tolist() == [[2, 2], [2, 2]]


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="same length, got 3 and 4"):
        Split(torch.zeros(3, 1), TARGETS)


def test_counts_leave_out_unknown_labels() -> None:
    assert Split(torch.zeros(4, 1), TARGETS).counts().tolist() == [[2, 2, 1], [2, 1, 3]]


def test_images_are_normalised_by_their_own_statistics() -> None:
    pixels = torch.randint(256, (50, 3, 6, 7), dtype=torch.uint8)
    images = Images.standardized(pixels)
    expected = pixels.numpy() / 255.0
    assert images.mean == pytest.approx(expected.mean(axis=(0, 2, 3)), abs=1e-6)
    assert images.std == pytest.approx(expected.std(axis=(0, 2, 3)), abs=1e-6)
    batch = images.batch(torch.arange(50))
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert batch.mean(dim=(0, 2, 3)).abs().max() < 1e-5
    assert (batch.std(dim=(0, 2, 3), correction=0) - 1).abs().max() < 1e-5


def test_black_images_do_not_divide_by_zero() -> None:
    assert (
        Images.standardized(torch.zeros(2, 1, 3, 3, dtype=torch.uint8))
        .batch(torch.tensor([0]))
        .isfinite()
        .all()
    )


@pytest.mark.parametrize(("augment", "flips"), [(crop, False), (crop_and_flip, True)])
def test_crops_are_windows_of_the_padded_image(augment, flips: bool) -> None:
    pixels = torch.randint(1, 256, (40, 2, 16, 8), dtype=torch.uint8)
    taken = augment(pixels, torch.Generator().manual_seed(3)).numpy()
    padded = np.pad(pixels.numpy(), ((0, 0), (0, 0), (2, 2), (1, 1)))
    seen_flips, seen_shifts = set(), set()
    for image, big in zip(taken, padded, strict=True):
        found = [
            (top, left, flip)
            for top in range(5)
            for left in range(3)
            for flip in (False, True)
            if (big[:, top : top + 16, left : left + 8][:, :, :: -1 if flip else 1] == image).all()
        ]
        assert len(found) == 1
        seen_shifts.add(found[0][:2])
        seen_flips.add(found[0][2])
    assert seen_flips == ({False, True} if flips else {False})
    assert len(seen_shifts) > 8


def test_augmentation_needs_a_generator_and_follows_it() -> None:
    images = Images(
        torch.randint(256, (9, 3, 32, 32), dtype=torch.uint8), (0.5,) * 3, (1.0,) * 3, crop_and_flip
    )
    index = torch.arange(9)
    plain = images.batch(index)
    assert torch.equal(plain, images.batch(index))
    first, again, other = (images.batch(index, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, plain)
    assert not torch.equal(first, other)


def test_statistics_by_hand() -> None:
    statistics = summarize(Split(torch.zeros(4, 1), TARGETS), ["a", "b", "c"])
    assert statistics.positives == (2, 1, 3)
    assert statistics.negatives == (2, 2, 1)
    assert statistics.unknown == (0, 1, 0)
    assert statistics.ratios == (1.0, 0.5, 3.0)
    assert statistics.order == (2, 0, 1)
    assert statistics.rho == 3.0
    assert statistics.cardinality == 1.5
    assert statistics.density == pytest.approx(6 / 11)
    assert statistics.num_unlabelled == 1
    listed = statistics.to_json()
    assert [row["class"] for row in listed["classes"]] == ["c", "a", "b"]
    assert (listed["labels"], listed["unknown"], listed["unlabelled_samples"]) == (6, 1, 1)


def test_statistics_of_degenerate_classes() -> None:
    targets = torch.tensor([[1, 0], [1, 0]], dtype=torch.int8)
    statistics = summarize(Split(torch.zeros(2, 1), targets), ["always", "never"])
    assert statistics.without_negatives == ("always",)
    assert statistics.without_positives == ("never",)
    assert statistics.ratios == (None, 0.0)
    assert statistics.rho == 1.0
    assert summarize(Split(torch.zeros(2, 1), torch.zeros(2, 2, dtype=torch.int8)), ["a", "b"]).rho is None


def test_co_occurrence_is_the_same_dense_and_sparse() -> None:
    labels = (np.random.default_rng(0).random((300, 7)) < 0.3).astype(np.int8)
    expected = [[int((labels[:, i] & labels[:, j]).sum()) for j in range(7)] for i in range(7)]
    assert co_occurrence(Split(torch.zeros(300, 1), torch.from_numpy(labels))).tolist() == expected
    assert co_occurrence(Split(torch.zeros(300, 1), csr_array(labels))).tolist() == expected


def test_dataset_lists_the_splits_there_are() -> None:
    split = Split(torch.zeros(4, 2), TARGETS)
    encoder = ImageEncoder(channels=1, height=1, width=2, mean=(0.0,), std=(1.0,))
    dataset = Dataset("a", ("x", "y", "z"), split, None, split, encoder)
    assert list(dataset.splits) == ["train", "test"]
    assert dataset.shape == (2,)


@pytest.mark.parametrize(
    "members", [np.zeros(4, int), np.zeros((3, 1), int), np.zeros((4, 3), int), np.zeros((4, 1))]
)
def test_members_are_one_or_two_numbers_for_each_sample(members) -> None:
    with pytest.raises(ValueError, match=r"integers of shape \(4, 1\) or \(4, 2\)"):
        Split(torch.zeros(4, 1), TARGETS, members)
