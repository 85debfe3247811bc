"""Images in memory: normalised in the batch, augmented as a whole batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["Augment", "Images", "crop", "crop_and_flip", "normalize_images"]

Augment: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Images:
    """Images (N, channels, height, width) in uint8, with the mean and deviation that normalise them.

    A batch is selected, augmented if there is a generator, and normalised, all as one tensor. Its layout is
    `channels_last`, the fastest for convolutions on the CPU.

    >>> images = Images(torch.full((2, 1, 1, 1), 255, dtype=torch.uint8), mean=(0.5,), std=(0.25,))
    >>> images.batch(torch.tensor([1])).item()
    2.0
    """

    pixels: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augment: Augment | None = None

    on_disk = False

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width."""
        return tuple(self.pixels.shape[1:])

    def batch(self, index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Normalised images (B, channels, height, width) in float32."""
        pixels = self.pixels.index_select(0, index)
        if generator is not None and self.augment is not None:
            pixels = self.augment(pixels, generator)
        return normalize_images(pixels, self.mean, self.std)

    @classmethod
    def standardized(cls, pixels: Tensor, *, augment: Augment | None = None) -> Images:
        """Images with the mean and deviation of their own channels, computed from exact integer sums."""
        number = pixels.numel() // pixels.shape[1]
        bins = [torch.bincount(channel.flatten(), minlength=256).tolist() for channel in pixels.unbind(1)]
        sums = [sum(value * count for value, count in enumerate(counts)) for counts in bins]
        squares = [sum(value**2 * count for value, count in enumerate(counts)) for counts in bins]
        variances = [max(s2 * number - s1**2, 1) / number**2 for s1, s2 in zip(sums, squares, strict=True)]
        mean = tuple(round(total / number / 255, 6) for total in sums)
        std = tuple(max(round(variance**0.5 / 255, 6), 1e-6) for variance in variances)
        return cls(pixels, mean, std, augment)


def normalize_images(pixels: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Pixels (B, channels, height, width) in uint8 as float32, (x / 255 − mean) / std, `channels_last`."""
    scale = torch.tensor([1.0 / (255.0 * value) for value in std])[:, None, None]
    shift = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)])[:, None, None]
    images = pixels.to(torch.float32, memory_format=torch.channels_last)
    return images.mul_(scale).add_(shift)


def crop(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Images padded with black by an eighth of their side, and cropped back at a random place."""
    return _taken(pixels, generator, flip=False)


def crop_and_flip(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Images padded with black by an eighth of their side, cropped at random, mirrored with probability ½.

    For CIFAR's 32×32 images, an eighth is the usual 4 pixels.

    >>> pixels = torch.zeros(8, 3, 32, 32, dtype=torch.uint8)
    >>> crop_and_flip(pixels, torch.Generator().manual_seed(0)).shape
    torch.Size([8, 3, 32, 32])
    """
    return _taken(pixels, generator, flip=True)


def _taken(pixels: Tensor, generator: torch.Generator, *, flip: bool) -> Tensor:
    number, _, height, width = pixels.shape
    down, across = height // 8, width // 8
    padded = F.pad(pixels, (across, across, down, down))
    top = torch.randint(2 * down + 1, (number, 1), generator=generator)
    left = torch.randint(2 * across + 1, (number, 1), generator=generator)
    rows = top + torch.arange(height)  # (B, height)
    columns = torch.arange(width).expand(number, width)
    if flip:
        mirrored = torch.randint(2, (number, 1), generator=generator).bool()
        columns = torch.where(mirrored, columns.flip(1), columns)
    columns = left + columns  # (B, width)
    samples = torch.arange(number)[:, None, None]
    taken = padded.permute(0, 2, 3, 1)[samples, rows[:, :, None], columns[:, None, :]]
    return taken.permute(0, 3, 1, 2)
