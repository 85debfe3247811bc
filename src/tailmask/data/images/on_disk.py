"""Images on disk, decoded in the batch. JPEGs are decoded only as large as needed."""

from __future__ import annotations

import contextlib
import math
import os
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError, require
from tailmask.data.images.bit_depth import to_eight_bits
from tailmask.data.images.in_memory import normalize_images

__all__ = ["FORMATS", "SUFFIXES", "ImageFiles", "check_paths", "decode", "opened", "packed", "read_upright"]

_NOT_DECODED = (OSError, SyntaxError, ValueError, EOFError, struct.error, MemoryError, ArithmeticError)

# Pillow can open more formats, some of them with the help of other programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")

_ORIENTATION = 274  # the tag of EXIF
# The transformation that makes an image upright, by its orientation; from 5 on, width and height are swapped.
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}

# A part of an image in pixels: left, top, right, bottom.
Box: TypeAlias = tuple[float, float, float, float]


@dataclass(frozen=True)
class ImageFiles:
    """Image files below one folder, scaled to one size and normalised.

    Without a generator, a batch takes the largest box of the right shape in the middle of an image. With a
    generator and `min_area`, it takes a random box, as in the training of ImageNet models: its share of the
    image's area is between `min_area` and 1, and its sides are in a ratio of up to 4:3. With `flip` the box
    is mirrored with probability ½.
    """

    folder: Path
    names: NDArray[np.bytes_]  # made by `packed`: one buffer for all names, shared by worker processes
    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    min_area: float | None = None
    flip: bool = False

    on_disk = True

    def __len__(self) -> int:
        return len(self.names)

    def batch(self, index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Normalised images (B, channels, height, width) in float32."""
        channels, height, width = self.shape
        pixels = np.empty((len(index), height, width, channels), dtype=np.uint8)
        draws = None if generator is None else torch.rand(len(index), 5, generator=generator).tolist()
        for number, name in enumerate(self.names[index.numpy()]):
            drawn = None if draws is None else draws[number]
            pixels[number] = self._decode(self.folder / os.fsdecode(name), drawn)
        return normalize_images(torch.from_numpy(pixels).permute(0, 3, 1, 2), self.mean, self.std)

    def _decode(self, path: Path, draws: list[float] | None) -> NDArray[np.uint8]:
        if draws is None:
            return decode(path, self.shape)
        box = None if self.min_area is None else partial(_random, draws=draws, min_area=self.min_area)
        pixels = decode(path, self.shape, choose_box=box)
        return pixels[:, ::-1] if self.flip and draws[4] < 0.5 else pixels


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An image file opened by Pillow. Decoding errors, here or in the block, are raised as `UserError`."""
    pillow = require("PIL.Image", extra="cli")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(path, formats=FORMATS) as image:
                yield image
    except UserError:
        raise
    except (*_NOT_DECODED, pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise UserError(
            f"{path} cannot be decoded as an image ({reason}): replace it or leave it out"
        ) from error


def decode(
    path: Path, shape: tuple[int, int, int], *, choose_box: Callable[[tuple[int, int]], Box] | None = None
) -> NDArray[np.uint8]:
    """Pixels (height, width, channels) of the middle of an image file, or of a chosen box.

    `choose_box` gets the image's width and height. Photographs are rotated according to their EXIF data.
    """
    pillow = require("PIL.Image", extra="cli")
    channels, height, width = shape
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels]
    with opened(path) as image:
        orientation = _orientation(image)
        sides = slice(None, None, -1 if orientation >= 5 else 1)
        full = image.size[sides]
        box = _middle(full, width / height) if choose_box is None else choose_box(full)
        # `draft` decodes a JPEG at ½, ¼ or ⅛ of its size if that is large enough.
        enough = (full[0] * width / (box[2] - box[0]), full[1] * height / (box[3] - box[1]))
        image.draft(None if mode == "RGBA" else mode, (math.ceil(enough[0]), math.ceil(enough[1]))[sides])
        image = to_eight_bits(image, path)
        if orientation != 1:
            image = image.transpose(pillow.Transpose[_TURNS[orientation]])
        across, down = image.size[0] / full[0], image.size[1] / full[1]
        box = (box[0] * across, box[1] * down, box[2] * across, box[3] * down)
        image = image.convert(mode).resize((width, height), pillow.Resampling.BILINEAR, box=box)
        return np.asarray(image, dtype=np.uint8).reshape(height, width, channels)


def read_upright(path: Path) -> Any:
    """A whole image file as a Pillow image, RGB with 8 bits, turned as its EXIF data say."""
    pillow = require("PIL.Image", extra="cli")
    with opened(path) as image:
        orientation = _orientation(image)
        image = to_eight_bits(image, path)
        if orientation != 1:
            image = image.transpose(pillow.Transpose[_TURNS[orientation]])
        return image.convert("RGB")


def _orientation(image: Any) -> int:
    """The orientation of an image by its EXIF data; 1 if it is upright or the data are damaged."""
    if image.format in ("PNG", "TIFF"):
        image.load()  # EXIF data of a PNG may come last; Pillow itself rotates a TIFF
    if image.format != "TIFF":
        with contextlib.suppress(*_NOT_DECODED):
            orientation = image.getexif().get(_ORIENTATION)
            return orientation if orientation in _TURNS else 1
    return 1


def _middle(size: tuple[int, int], aspect: float) -> Box:
    """The largest box with this width over height in the middle of an image."""
    width, height = min(size[0], size[1] * aspect), min(size[1], size[0] / aspect)
    left, top = (size[0] - width) / 2, (size[1] - height) / 2
    return left, top, left + width, top + height


def _random(size: tuple[int, int], draws: Sequence[float], min_area: float) -> Box:
    """A box whose area, side ratio and place depend on four draws from [0, 1)."""
    area = size[0] * size[1] * (min_area + draws[0] * (1 - min_area))
    ratio = math.exp((2 * draws[1] - 1) * math.log(4 / 3))  # wide and high are equally likely
    width, height = min(size[0], math.sqrt(area * ratio)), min(size[1], math.sqrt(area / ratio))
    left, top = draws[2] * (size[0] - width), draws[3] * (size[1] - height)
    return left, top, left + width, top + height


def packed(names: Sequence[str]) -> NDArray[np.bytes_]:
    """File names as one array of bytes."""
    return np.array([os.fsencode(name) for name in names], dtype=np.bytes_)


def check_paths(folder: Path, names: Sequence[str], where: object) -> None:
    """Raise an error for the first name that is outside of the folder or not a file."""
    for number, name in enumerate(names):
        path = PurePath(name)
        if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
            raise UserError(f"{where}, image {number}: {name[:80]!r} is not a path below {folder}")
        try:
            found = (folder / path).is_file()
        except OSError:  # a name that is too long
            found = False
        if not found:
            raise UserError(
                f"{where}, image {number}: there is no file {str(folder / path)[:200]}: "
                "--images says which folder the images are in"
            )
