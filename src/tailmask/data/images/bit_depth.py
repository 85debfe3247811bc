"""Images with more than 8 bits a pixel, as cameras for medicine, science and satellites make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import UserError, require

__all__ = ["range_note", "to_eight_bits"]

_BITS_PER_SAMPLE = 258  # the tag of TIFF


def to_eight_bits(image: Any, path: Path) -> Any:
    """A Pillow image scaled to 8 bits by the range of its format: Pillow itself would cut off what is beyond.

    Whole numbers of 16 bits range from 0 to 65535, floats from 0 to 1; of others nobody knows.
    """
    if not _is_deep(image):
        return image
    values = np.asarray(image)
    if image.mode == "F":
        if not ((values >= 0) & (values <= 1)).all():  # nor NaN
            raise UserError(
                f"{path} holds floats beyond 0 and 1: scale them to that range, or save them with 16 bits"
            )
        return _image(values * 255)
    highest = _highest(image)
    if highest is None:
        raise UserError(
            f"{path} holds whole numbers with a sign or of 32 bits, whose range is not known: "
            "scale them from 0 to 65535 and save them with 16 bits"
        )
    return _image(values * np.float32(255 / highest))


def range_note(image: Any) -> str | None:
    """What a user should know where an image fills so little of its range that few shades are left.

    >>> from PIL import Image
    >>> range_note(Image.fromarray(np.array([[0, 4095]], dtype=np.uint16)))
    'the first image ends at 4095 of 65535: if all do, multiply them by 16 for more shades'
    """
    highest = _highest(image) if _is_deep(image) and image.mode != "F" else None
    brightest = 0 if highest is None else int(np.asarray(image).max())
    if highest is None or not 0 < 4 * brightest <= highest:
        return None
    return (
        f"the first image ends at {brightest} of {highest}: "
        f"if all do, multiply them by {highest // brightest} for more shades"
    )


def _is_deep(image: Any) -> bool:
    return image.mode in ("F", "I") or image.mode.startswith("I;16")


def _highest(image: Any) -> int | None:
    """The highest whole number that an image's format allows, None where that is not known."""
    if image.mode != "I":
        is_tiff = image.format == "TIFF"
        return 4095 if is_tiff and image.tag_v2.get(_BITS_PER_SAMPLE) == (12,) else 65535
    # Of these two, Pillow takes 16 bits for 32.
    return 65535 if image.format in ("PNG", "PPM") else None


def _image(values: NDArray[np.floating[Any]]) -> Any:
    return require("PIL.Image", extra="cli").fromarray(np.rint(values).astype(np.uint8))
