"""Small images to read, drawn here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("circle", "square", "stripe")


def draw(folder: Path, number: int, *, size: tuple[int, int] = (40, 30)) -> list[str]:
    """Small images in several formats and modes; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    names = []
    for i in range(number):
        mode, suffix = [("RGB", "jpg"), ("L", "png"), ("RGBA", "png"), ("P", "gif")][i % 4]
        pixels = np.kron(
            rng.integers(256, size=(5, 4, 3), dtype=np.uint8), np.ones((6, 10, 1), dtype=np.uint8)
        )
        image = Image.fromarray(pixels).resize(size).convert(mode)
        names.append(f"image{i}.{suffix}")
        image.save(folder / names[-1])
    return names
