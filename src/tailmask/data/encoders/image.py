"""Images from files or arrays, scaled to one size and normalised."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from tailmask._util.messages import UserError
from tailmask.data.encoders.encoder import Encoder
from tailmask.data.images.in_memory import normalize_images
from tailmask.data.images.on_disk import decode
from tailmask.data.readers.npz import AS_IN_TRAINING, Npz

__all__ = ["ImageEncoder", "resize", "to_pixels"]


@dataclass(frozen=True)
class ImageEncoder(Encoder):
    """Images of one size and number of channels, normalised with a mean and a deviation per channel."""

    channels: int
    height: int
    width: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    key: str = "X"  # the name of the array in an .npz file

    kind = "images"
    reads_images = True

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return (self.channels, self.height, self.width)

    def to_json(self) -> dict[str, Any]:
        """The size of the images, the moments of their channels, and the name of their array."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ImageEncoder:
        """The encoder that `to_json` wrote; `Encoder.from_json` calls this for the kind `images`."""
        channels, height, width = (operator.index(value[name]) for name in ("channels", "height", "width"))
        mean, std = (tuple(float(number) for number in value[name]) for name in ("mean", "std"))
        if channels not in (1, 3, 4) or len(mean) != channels or len(std) != channels:
            raise ValueError("an image has 1, 3 or 4 channels, and a mean and deviation for each")
        return cls(channels, height, width, mean, std, key=str(value["key"]))

    def batches(self, path: Path, batch_size: int, *, images: Path | None = None) -> Iterator[Tensor]:
        """Images (B, channels, height, width) of an .npz file, one image, a folder, or a list of images.

        Listed paths are relative to the folder `images`, by default the list's own.
        """
        for pixels in self.pixels(path, batch_size, images):
            yield normalize_images(pixels, self.mean, self.std)

    def pixels(self, path: Path, batch_size: int, images: Path | None = None) -> Iterator[Tensor]:
        """The same images in uint8, not normalised."""
        if path.suffix.lower() == ".npz":
            file = Npz(path)
            file.require(self.key, AS_IN_TRAINING)
            for values in file.rows(self.key, batch_size):
                pixels = to_pixels(values, f"{path}: {self.key!r}")
                if pixels.shape[1] != self.channels:
                    raise UserError(
                        f"{path} must hold images of {self.channels} channels, got {pixels.shape[1]}"
                    )
                yield resize(pixels, self.height, self.width)
            return
        from tailmask.data.readers.image_list import listed_images

        names = listed_images(path, images)
        for start in range(0, len(names), batch_size):
            decoded = [decode(name, self.shape) for name in names[start : start + batch_size]]
            yield torch.from_numpy(np.stack(decoded)).permute(0, 3, 1, 2)


def to_pixels(values: NDArray[Any], where: object) -> Tensor:
    """Images (N, channels, height, width) in uint8 from an array (N, H, W), (N, H, W, C) or (N, C, H, W).

    The array holds uint8, or floats in [0, 1].

    >>> to_pixels(np.zeros((2, 8, 6, 3), dtype=np.uint8), "X").shape
    torch.Size([2, 3, 8, 6])
    """
    if values.dtype.kind == "f" and values.ndim in (3, 4) and ((values >= 0) & (values <= 1)).all():
        values = np.rint(values * 255).astype(np.uint8)
    if values.dtype != np.uint8 or values.ndim not in (3, 4):
        raise UserError(
            f"{where} must be rows of numbers, or images as uint8 or floats in [0, 1], "
            f"got {values.dtype} of shape {tuple(values.shape)}"
        )
    pixels = torch.from_numpy(np.ascontiguousarray(values))
    if pixels.ndim == 3:
        return pixels[:, None]
    if pixels.shape[3] in (1, 3, 4):
        return pixels.permute(0, 3, 1, 2)
    if pixels.shape[1] in (1, 3, 4):
        return pixels
    raise UserError(f"{where} must be images of 1, 3 or 4 channels, got shape {tuple(values.shape)}")


def resize(pixels: Tensor, height: int, width: int) -> Tensor:
    """Images (N, channels, height, width) in uint8, smoothed if they shrink."""
    if pixels.shape[2:] == (height, width):
        return pixels.contiguous()
    pieces = [
        F.interpolate(
            piece.contiguous(), (height, width), mode="bilinear", antialias=True, align_corners=False
        )
        for piece in torch.split(pixels, 1024)
    ]
    return torch.cat(pieces)
