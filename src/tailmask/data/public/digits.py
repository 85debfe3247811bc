"""`digits`: a long-tailed two-digit multi-label set that needs no download.

It is a small MultiMNIST, made from scikit-learn's bundled 8×8 digits in the paper's way:

1. The digits of each class are put into a random order: the first 60 are for testing, the next 20 for
   validation, and the others for training.
2. Training keeps n_c = ⌊60 · 20^(−c/9)⌋ digits of class c, a long tail with ρ = 20 from 60 zeros to 3 nines.
3. Each training digit is the first of 16 pairs. Its partners are drawn with replacement from all training
   digits, so a tail class has many images of few digits.
4. Validation has 3 pairs for each training digit, drawn in the same way. Then a random validation digit of
   the same class replaces every training digit: the same imbalance as in training, but other digits.
5. For testing, each test digit is paired with one random test digit of each of the 9 other classes. So the
   test split is balanced.
6. Each digit of a pair gets its own random place on a 12×12 canvas. The image is their pixel-wise maximum.
   Its labels are the union of theirs.

This makes 3216 training, 603 validation and 5400 test images. `validation=0` leaves out the validation split
and changes nothing else.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import require
from tailmask.data.dataset import Dataset, Split
from tailmask.data.digests import digest
from tailmask.data.encoders.image import ImageEncoder
from tailmask.data.images.digit_pairs import one_of_each_other, superimpose, union
from tailmask.data.images.in_memory import Images
from tailmask.data.options import DataOptions
from tailmask.data.public.longtail import long_tail_counts
from tailmask.data.public.portable_draws import Draws

__all__ = ["load_digits", "partition"]

SIZE, CANVAS = 8, 12
NUM_TEST, NUM_VALIDATION = 60, 20
LARGEST, RHO = 60, 20
TRAIN_PAIRS, VALIDATION_PAIRS = 16, 3


def load_digits(options: DataOptions) -> Dataset:
    """The built-in long-tailed set of digit pairs. Another `options.data_seed` makes other pairs.

    >>> dataset = load_digits(DataOptions())
    >>> {name: len(split) for name, split in dataset.splits.items()}
    {'train': 3216, 'validation': 603, 'test': 5400}
    """
    digits, labels = _bundled_digits()
    draws = Draws(options.data_seed)
    train, held_out, test = partition(labels, draws)

    def images_of(pairs: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        corners = torch.from_numpy(draws.below(CANVAS - SIZE + 1, (len(pairs), 2, 2)))
        return superimpose(digits, torch.from_numpy(pairs), corners, size=CANVAS), union(labels, pairs)

    train_pixels, train_targets = images_of(_pairs(train, TRAIN_PAIRS, draws))
    validation_pairs = labels[_pairs(train, VALIDATION_PAIRS, draws)]
    stand_ins = draws.below(NUM_VALIDATION, validation_pairs.shape)
    validation_pixels, validation_targets = images_of(held_out[validation_pairs, stand_ins])
    test_pairs = test[one_of_each_other(labels[test], draws)]
    test_pixels, test_targets = images_of(test_pairs)

    images = Images.standardized(train_pixels)
    mean, std = images.mean, images.std
    validation = Split(Images(validation_pixels, mean, std), validation_targets)
    return Dataset(
        name="digits",
        classes=tuple("0123456789"),
        train=Split(images, train_targets),
        validation=None if options.validation == 0 else validation,
        test=Split(Images(test_pixels, mean, std), test_targets, test_pairs),
        encoder=ImageEncoder(channels=1, height=CANVAS, width=CANVAS, mean=mean, std=std),
        source={
            "name": "digits",
            "data_seed": options.data_seed,
            "digest": digest(train_pixels, validation_pixels, test_pixels),
            "validation": options.validation != 0,
        },
        unit="digit",
    )


def partition(
    labels: NDArray[np.int64], draws: Draws
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The digits for training (a long tail), for validation (10, 20) and for testing."""
    order = draws.permutation(len(labels))
    by_class = [order[labels[order] == c] for c in range(10)]
    test = np.concatenate([members[:NUM_TEST] for members in by_class])
    held_out = np.stack([members[NUM_TEST : NUM_TEST + NUM_VALIDATION] for members in by_class])
    rest = [members[NUM_TEST + NUM_VALIDATION :] for members in by_class]
    tail = long_tail_counts(LARGEST, 10, RHO)
    train = np.concatenate([members[:number] for members, number in zip(rest, tail, strict=True)])
    return train, held_out, test


def _bundled_digits() -> tuple[Tensor, NDArray[np.int64]]:
    """scikit-learn's 1797 digits (N, 8, 8), their 17 shades of grey scaled to 0…255, and their labels."""
    data, labels = require("sklearn.datasets", extra="cli").load_digits(return_X_y=True)
    pixels = torch.from_numpy(data).to(torch.int64) * 255 // 16
    return pixels.to(torch.uint8).view(-1, SIZE, SIZE), labels.astype(np.int64)


def _pairs(digits: NDArray[np.int64], pairs_per_digit: int, draws: Draws) -> NDArray[np.int64]:
    first = np.repeat(digits, pairs_per_digit)
    return np.stack([first, digits[draws.below(len(digits), len(first))]], axis=1)
