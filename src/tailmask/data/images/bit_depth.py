"""Images with more than 8 bits per pixel, from medical, scientific and satellite cameras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import UserError, require

__all__ = ["range_note", "to_eight_bits"]

_BITS_PER_SAMPLE = 258  # the tag of TIFF


def to_eight_bits(image: Any, path: Path) -> Any:
    """A Pillow image scaled to 8 bits by the range of its format. Pillow itself would clip higher values.

    Unsigned integers of 16 bits range from 0 to 65535, floats from 0 to 1. The range of others is not known.
    """
    if not _is_deep(image):
        return image
    values = np.asarray(image)
    if image.mode == "F":
        if not ((values >= 0) & (values <= 1)).all():  # also refuses NaN
            raise UserError(
                f"{path} holds floats outside of [0, 1]: scale them to that range, or save them with 16 bits"
            )
        return _image(values * 255)
    highest = _highest(image)
    if highest is None:
        raise UserError(
            f"{path} holds signed or 32-bit integers, and their range is not known: "
            "scale them to 0…65535 and save them with 16 bits"
        )
    return _image(values * np.float32(255 / highest))


def range_note(image: Any) -> str | None:
    """A note if an image uses so little of its range that few shades are left; None otherwise.

    >>> from PIL import Image
    >>> range_note(Image.fromarray(np.array([[0, 4095]], dtype=np.uint16)))
    'the brightest pixel of the first image is 4095 of 65535: if all images are so dark, multiply them by 16'
    """
    highest = _highest(image) if _is_deep(image) and image.mode != "F" else None
    brightest = 0 if highest is None else int(np.asarray(image).max())
    if highest is None or not 0 < 4 * brightest <= highest:
        return None
    return (
        f"the brightest pixel of the first image is {brightest} of {highest}: "
        f"if all images are so dark, multiply them by {highest // brightest}"
    )


def _is_deep(image: Any) -> bool:
    return image.mode in ("F", "I") or image.mode.startswith("I;16")


def _highest(image: Any) -> int | None:
    """The highest integer that an image's format allows; None if that is not known."""
    if image.mode != "I":
        is_tiff = image.format == "TIFF"
        return 4095 if is_tiff and image.tag_v2.get(_BITS_PER_SAMPLE) == (12,) else 65535
    # Pillow reads 16 bits of these two formats as 32.
    return 65535 if image.format in ("PNG", "PPM") else None


def _image(values: NDArray[np.floating[Any]]) -> Any:
    return require("PIL.Image", extra="cli").fromarray(np.rint(values).astype(np.uint8))
