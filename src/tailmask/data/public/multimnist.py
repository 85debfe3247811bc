"""`multimnist`: the paper's imbalanced MultiMNIST (appendix), two digits on one canvas.

Training keeps n_c = ⌊5923 · 100^(−c/9)⌋ digits of each class, 14694 in all. Each of them is the first digit
of one pair. Its partner is drawn with replacement from the same long-tailed digits. A pair of equal digits
has one label. For testing, every test digit is paired with one random digit of each of the 9 other classes:
90000 images, with exactly the paper's ten counts. The 28×28 digits are padded to 32×32, both are shifted by
−6…6 pixels in each direction (parts outside of the frame are cut off), superimposed by the pixel-wise maximum
and scaled to [0, 1].

The pairs are random. The paper's had 105 nines and ρ = 90.33. Seed 94 is the nearest of the first hundred
seeds, with 105 nines and ρ = 90.55. The mean over seeds is 81.

The images are fixed. With `fresh_shifts` the training digits get new shifts in every epoch.

`validation` adds that share of 14694 pairs, made from digits that the long tail leaves unused. No zeros are
unused, so validation takes training zeros with other partners and shifts. Neither option changes a byte of
the other splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.data.dataset import Dataset, Split
from tailmask.data.digests import digest
from tailmask.data.encoders.image import ImageEncoder
from tailmask.data.images.digit_pairs import one_of_each_other, superimpose, union
from tailmask.data.images.in_memory import Images, normalize_images
from tailmask.data.options import DataOptions
from tailmask.data.public.download import MNIST, provide
from tailmask.data.public.longtail import long_tail_counts
from tailmask.data.public.portable_draws import Draws
from tailmask.data.readers.idx import read_idx

__all__ = ["ShiftedPairs", "load_multimnist", "validation_pairs"]

CANVAS, LARGEST_SHIFT = 32, 6
LARGEST_CLASS, RHO = 5923, 100
_FIRST_CORNER = 2 - LARGEST_SHIFT  # a padding of 2, less the largest shift


@dataclass(frozen=True)
class ShiftedPairs:
    """Pairs of digits that are superimposed in the batch. So training can shift them differently each time.

    >>> digits = torch.full((2, 28, 28), 255, dtype=torch.uint8)
    >>> pairs = ShiftedPairs(digits, torch.tensor([[0, 1]]), torch.tensor([[[2, 2], [2, 2]]]))
    >>> pairs.batch(torch.tensor([0])).mean()
    tensor(0.7656)
    """

    digits: Tensor  # (M, 28, 28) uint8
    pairs: Tensor  # (N, 2) int64, the numbers of the digits
    corners: Tensor  # (N, 2, 2) int64, their places if no shifts are drawn

    on_disk = False
    shape = (1, CANVAS, CANVAS)

    def __len__(self) -> int:
        return len(self.pairs)

    def pixels(self, index: Tensor, corners: Tensor) -> Tensor:
        """Images (B, 1, 32, 32) in uint8."""
        return superimpose(self.digits, self.pairs[index], corners, size=CANVAS)

    def batch(self, index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Images (B, 1, 32, 32) in [0, 1]; with a generator, the digits get new random shifts."""
        corners = self.corners[index]
        if generator is not None:
            shifts = torch.randint(2 * LARGEST_SHIFT + 1, corners.shape, generator=generator)
            corners = shifts + _FIRST_CORNER
        return normalize_images(self.pixels(index, corners), (0.0,), (1.0,))

    def fixed(self) -> Images:
        """The images with their own shifts, as one tensor."""
        return Images(self.pixels(torch.arange(len(self)), self.corners), (0.0,), (1.0,))


def load_multimnist(options: DataOptions) -> Dataset:
    """The paper's imbalanced MultiMNIST, from the four idx files of MNIST."""
    root = provide(MNIST, options)
    digits, labels = _read_digits(root / "mnist", "train")
    test_digits, test_labels = _read_digits(root / "mnist", "t10k")
    seed, share = options.data_seed, options.validation or 0.0

    draws = Draws(seed, 0)
    tail = long_tail_counts(LARGEST_CLASS, 10, RHO)
    order = draws.permutation(len(labels))
    by_class = [order[labels[order] == c] for c in range(10)]
    for c, number in enumerate(tail):
        if len(by_class[c]) < number:
            raise UserError(
                f"{root / 'mnist'} has {len(by_class[c])} training images of digit {c}, not {number}: "
                "download the files again"
            )
    kept = np.concatenate([members[:number] for members, number in zip(by_class, tail, strict=True)])
    pairs = np.stack([kept, kept[draws.below(len(kept), len(kept))]], axis=1)
    train = _shifted(digits, pairs, draws)
    test_draws = Draws(seed, 1)
    test_pairs = one_of_each_other(test_labels, test_draws)
    test = _shifted(test_digits, test_pairs, test_draws).fixed()

    train_split = Split(train if options.fresh_shifts else train.fixed(), union(labels, pairs))
    test_split = Split(test, union(test_labels, test_pairs), test_pairs)
    validation = None
    if share:
        draws = Draws(seed, 2)
        held_out = validation_pairs(by_class, tail, max(1, round(share * len(kept))), draws)
        validation = Split(_shifted(digits, held_out, draws).fixed(), union(labels, held_out))
    return Dataset(
        name="multimnist",
        classes=tuple("0123456789"),
        train=train_split,
        validation=validation,
        test=test_split,
        encoder=ImageEncoder(channels=1, height=CANVAS, width=CANVAS, mean=(0.0,), std=(1.0,)),
        source={
            "name": "multimnist",
            "data_seed": seed,
            "fresh_shifts": options.fresh_shifts,
            "validation": share,
            "digest": digest(train.pairs, train.corners, digits, test.pixels),
        },
        unit="digit",
    )


def validation_pairs(
    by_class: Sequence[NDArray[np.int64]], tail: Sequence[int], number: int, draws: Draws
) -> NDArray[np.int64]:
    """Pairs (number, 2) with the long tail's classes, made from digits that the long tail leaves unused."""
    classes = np.repeat(np.arange(len(tail)), tail)  # a draw from these has the long tail
    leads = classes[np.arange(number) * len(classes) // number]  # evenly spaced: no class is left out
    pair_classes = np.stack([leads, classes[draws.below(len(classes), number)]], axis=1)
    pairs = np.empty_like(pair_classes)
    for c, members in enumerate(by_class):
        wanted = pair_classes == c
        unused = members[tail[c] :] if len(members) > tail[c] else members
        pairs[wanted] = unused[draws.below(len(unused), int(wanted.sum()))]
    return pairs


def _shifted(digits: Tensor, pairs: NDArray[np.int64], draws: Draws) -> ShiftedPairs:
    corners = draws.below(2 * LARGEST_SHIFT + 1, (len(pairs), 2, 2)) + _FIRST_CORNER
    return ShiftedPairs(digits, torch.from_numpy(pairs), torch.from_numpy(corners))


def _read_digits(folder: Path, part: str) -> tuple[Tensor, NDArray[np.int64]]:
    images = read_idx(folder / f"{part}-images-idx3-ubyte.gz", num_dimensions=3)
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz", num_dimensions=1)
    if images.shape[1:] != (28, 28) or len(images) != len(labels) or (len(labels) and labels.max() > 9):
        raise UserError(
            f"the {part} files in {folder} must hold 28×28 images and a label from 0 to 9 for each: "
            "download them again"
        )
    return torch.from_numpy(images.copy()), labels.astype(np.int64)
