"""`cifar10-lt` and `cifar100-lt`: the long-tailed CIFAR of Cui et al. (2019), which the paper follows.

Training keeps the first n_c = ⌊n_max · ρ^(−c/(C−1))⌋ training images of class c; n_max is 5000 (CIFAR-10) or
500 (CIFAR-100). The test set is the published one. By default there is no validation split. `validation`
holds a share of the long tail out of training: the last images of each class, rounded down. With
`validation_from = "unused"` training keeps all of its images. Validation then gets images that the long tail
leaves unused: the next ⌊n_max · share⌋ of each class, or as many as there are. The largest class has none.
Images are normalised by the mean and deviation of the training split; training pads by 4, crops and mirrors
them.

Only the published binary version is read. The Python version holds pickles, which can run code.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from tailmask._util.messages import UserError
from tailmask.data.dataset import Dataset, Split
from tailmask.data.digests import digest
from tailmask.data.encoders.image import ImageEncoder
from tailmask.data.images.in_memory import Images, crop_and_flip
from tailmask.data.options import DataOptions
from tailmask.data.public.download import CIFAR10, CIFAR100, Remote, data_root, provide
from tailmask.data.public.longtail import long_tail_counts

__all__ = ["load_cifar10", "load_cifar100", "long_tail_rows", "read_cifar"]

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class _Variant:
    name: str
    remotes: tuple[Remote, ...]
    folder: str
    python_folder: str
    train: tuple[str, ...]
    test: str
    class_names: str
    num_classes: int
    label_bytes: int  # the last of them is the label
    largest: int


_CIFAR10 = _Variant(
    name="cifar10-lt",
    remotes=CIFAR10,
    folder="cifar-10-batches-bin",
    python_folder="cifar-10-batches-py",
    train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    test="test_batch.bin",
    class_names="batches.meta.txt",
    num_classes=10,
    label_bytes=1,
    largest=5000,
)

_CIFAR100 = _Variant(
    name="cifar100-lt",
    remotes=CIFAR100,
    folder="cifar-100-binary",
    python_folder="cifar-100-python",
    train=("train.bin",),
    test="test.bin",
    class_names="fine_label_names.txt",
    num_classes=100,
    label_bytes=2,
    largest=500,
)


def load_cifar10(options: DataOptions) -> Dataset:
    """Long-tailed CIFAR-10 with the imbalance `options.rho`."""
    return _load(_CIFAR10, options)


def load_cifar100(options: DataOptions) -> Dataset:
    """Long-tailed CIFAR-100 with the imbalance `options.rho`."""
    return _load(_CIFAR100, options)


def read_cifar(
    path: Path, *, num_classes: int, label_bytes: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (N, 3, 32, 32) and labels (N,) of one file of the binary version."""
    content = np.fromfile(path, dtype=np.uint8)
    size = label_bytes + PIXELS
    if len(content) % size:
        raise UserError(
            f"{path} has {len(content)} bytes, not a multiple of the record's {size}: download it again"
        )
    records = content.reshape(-1, size)
    labels = records[:, label_bytes - 1].astype(np.int64)
    wrong = np.flatnonzero(labels >= num_classes)
    if len(wrong):
        raise UserError(
            f"{path} has the label {labels[wrong[0]]} in record {wrong[0]}, "
            f"but there are only {num_classes} classes: download it again"
        )
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), labels


def _load(variant: _Variant, options: DataOptions) -> Dataset:
    folder = _folder(variant, options)
    names = (folder / variant.class_names).read_text(encoding="utf-8", errors="replace").split()
    if len(names) != variant.num_classes:
        raise UserError(
            f"{folder / variant.class_names} must name {variant.num_classes} classes, got {len(names)}"
        )
    share = options.validation or 0.0
    pixels, labels = _read_all(variant, [folder / name for name in variant.train])
    unused = options.validation_from == "unused"
    train, held_out = long_tail_rows(
        labels, names, variant.largest, rho=options.rho, validation=share, unused=unused
    )
    if unused and not len(held_out):
        raise UserError(
            f"rho {options.rho:g} leaves no training image of {folder} unused: take a larger rho, "
            "or leave out --validation-from"
        )
    test_pixels, test_labels = _read_all(variant, [folder / variant.test])

    def targets(values: NDArray[np.int64]) -> Tensor:
        return one_hot(torch.from_numpy(values), variant.num_classes).to(torch.int8)

    images = Images.standardized(torch.from_numpy(pixels[train]), augment=crop_and_flip)
    mean, std = images.mean, images.std
    validation = Split(Images(torch.from_numpy(pixels[held_out]), mean, std), targets(labels[held_out]))
    return Dataset(
        name=variant.name,
        classes=tuple(names),
        train=Split(images, targets(labels[train])),
        validation=validation if share else None,
        test=Split(Images(torch.from_numpy(test_pixels), mean, std), targets(test_labels)),
        encoder=ImageEncoder(channels=3, height=32, width=32, mean=mean, std=std),
        single_label=True,
        source={
            "name": variant.name,
            "rho": options.rho,
            "validation": share,
            "digest": digest(pixels[train], labels[train], test_pixels, test_labels),
        }
        | ({"unused": digest(pixels[held_out], labels[held_out])} if unused else {}),
    )


def _folder(variant: _Variant, options: DataOptions) -> Path:
    try:
        return provide(variant.remotes, options) / variant.folder
    except UserError as error:
        pickles = data_root(options) / variant.python_folder
        if not pickles.exists():
            raise
        raise UserError(f"{error}; {pickles} holds pickles, which can run code and are not read") from error


def _read_all(variant: _Variant, paths: list[Path]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    parts = [
        read_cifar(path, num_classes=variant.num_classes, label_bytes=variant.label_bytes) for path in paths
    ]
    return np.concatenate([pixels for pixels, _ in parts]), np.concatenate([labels for _, labels in parts])


def long_tail_rows(
    labels: NDArray[np.int64],
    names: list[str],
    largest: int,
    *,
    rho: float,
    validation: float,
    unused: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The images for training (the first n_c of each class) and those that are held out for validation.

    Validation gets the last of the n_c images or, if `unused`, those that follow them.
    """
    train, held_out = [], []
    for c, number in enumerate(long_tail_counts(largest, len(names), rho)):
        members = np.flatnonzero(labels == c)
        if len(members) < number:
            raise UserError(
                f"class {names[c]!r} has {len(members)} training images, rho {rho:g} asks for {number}: "
                "take a larger rho or download the whole data set"
            )
        if unused:
            train.append(members[:number])
            held_out.append(members[number : number + int(largest * validation)])
            continue
        kept = number - int(number * validation)
        train.append(members[:kept])
        held_out.append(members[kept:number])
    return np.concatenate(train), np.concatenate(held_out)
