"""Users' .npz files: inputs, targets and class names, by the names of their arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.data.copied_rows import row_keys
from tailmask.data.encoders.array import ArrayRows
from tailmask.data.encoders.image import ImageEncoder, resize, to_pixels
from tailmask.data.images.in_memory import Images, crop, crop_and_flip
from tailmask.data.options import DataOptions
from tailmask.data.readers.npz import Npz
from tailmask.data.readers.table.label_columns import (
    Labels,
    labels_from_csr,
    labels_from_matrix,
    labels_from_tags,
    read_classes,
)

__all__ = ["ImageRows", "read_npz"]


@dataclass(frozen=True)
class ImageRows:
    """Images (N, channels, height, width) in memory, and their augmentation in training."""

    pixels: Tensor
    key: str
    augment: str

    def __len__(self) -> int:
        return len(self.pixels)

    def keys(self, like: object = None) -> NDArray[np.uint64]:
        """One value per image, the same for images with the same pixels."""
        return row_keys(self.pixels.flatten(1).numpy())

    def fit(self, index: NDArray[np.int64], options: DataOptions) -> ImageEncoder:
        """The encoder with the mean and deviation of the images in `index`."""
        images = Images.standardized(self.pixels[torch.from_numpy(index)])
        channels, height, width = images.shape
        return ImageEncoder(channels, height, width, images.mean, images.std, key=self.key)

    def encode(self, encoder: ImageEncoder, index: NDArray[np.int64], *, training: bool = False) -> Images:
        """The images in `index`; in training they are augmented as `augment` says."""
        varied = {"none": None, "crop": crop, "crop+flip": crop_and_flip}[self.augment]
        pixels = resize(self.pixels[torch.from_numpy(index)], encoder.height, encoder.width)
        if pixels.shape[1] != encoder.channels:
            raise UserError(f"all images must have {encoder.channels} channels, got {pixels.shape[1]}")
        return Images(pixels, encoder.mean, encoder.std, varied if training else None)

    def notes(self, encoder: ImageEncoder, index: NDArray[np.int64], labels: Labels) -> list[str]:
        """No notes."""
        return []


def read_npz(path: Path, options: DataOptions) -> tuple[ArrayRows | ImageRows, Labels]:
    """Inputs and labels of an .npz file.

    The inputs are rows of numbers (N, F), a CSR matrix in its parts `X_data`, `X_indices`, `X_indptr` and
    `X_shape`, or images. The targets are (N, C) with 1, 0 and −1 or NaN for unknown, CSR parts, or (N,) with
    one class per sample, its number or name. `classes` may name the classes.
    """
    file = Npz(path)
    file.require(options.inputs, "name yours with --inputs")
    file.require(options.targets, "name yours with --targets")
    rows, labels = _inputs(file, options), _labels(file, options)
    if len(rows) != len(labels):
        raise UserError(
            f"{path}: {options.inputs!r} and {options.targets!r} must have the same number of rows, got "
            f"{len(rows)} and {len(labels)}"
        )
    return rows, labels


def _inputs(file: Npz, options: DataOptions) -> ArrayRows | ImageRows:
    key, where = options.inputs, f"{file.path}: {options.inputs!r}"
    if file.is_csr(key):
        matrix = file.csr(key)
        _check_finite(matrix.data, where)
        return ArrayRows(matrix, key)
    values = file.array(key)
    if values.ndim == 2 and values.dtype.kind in "biuf":
        _check_finite(values, where)
        return ArrayRows(values, key)
    pixels = to_pixels(values, where)
    side = options.image_size
    height, width = (side, side) if side else pixels.shape[2:]
    return ImageRows(resize(pixels, height, width), key, options.augment or "crop")


def _labels(file: Npz, options: DataOptions) -> Labels:
    key, where = options.targets, f"{file.path}: {options.targets!r}"
    names = _class_names(file, options)
    if file.is_csr(key):
        matrix = file.csr(key)
        return labels_from_csr(matrix, names or [str(c) for c in range(matrix.shape[1])], where)
    values = file.array(key)
    if values.ndim == 1 and values.dtype.kind in "iuUS":
        tags = values.astype(np.str_).tolist()
        if any(tag.startswith("-") for tag in tags):
            raise UserError(
                f"{where} has a negative class: write each sample's class number, 0 or more, or name"
            )
        return labels_from_tags([[tag] for tag in tags], where, classes=names)
    if values.ndim != 2:
        raise UserError(
            f"{where} must have shape (N, C), or (N,) for one class per sample, got {values.shape}"
        )
    return labels_from_matrix(values, names or [str(c) for c in range(values.shape[1])], where)


def _class_names(file: Npz, options: DataOptions) -> list[str] | None:
    if options.classes is not None:
        return list(read_classes(options.classes))
    if "classes" not in file:
        return None
    return [str(name) for name in file.array("classes").reshape(-1).astype(np.str_)]


def _check_finite(values: NDArray[np.generic], where: object) -> None:
    step = 2**24
    flat = values.reshape(-1)
    if values.dtype.kind == "f" and any(
        np.isinf(flat[i : i + step]).any() for i in range(0, len(flat), step)
    ):
        raise UserError(f"{where} has infinite numbers: write NaN for missing values")
