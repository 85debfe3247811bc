"""Which values a label may have, wherever labels come in."""

from __future__ import annotations

from torch import Tensor

__all__ = ["check_targets"]


def check_targets(targets: Tensor, *, hint: str = "check how the labels are encoded") -> None:
    """Refuse what is neither a label, 0 to 1, nor unknown, −1 or NaN; waits for the device.

    >>> check_targets(Tensor([1.0, 0.3, -1.0, float("nan")]))
    >>> check_targets(Tensor([1.0, 5.0]))
    Traceback (most recent call last):
    ValueError: targets must be 0, 1, soft labels between, or unknown (-1 or NaN), got 5: check how ...
    """
    # Asked by the sign first: to torch, 255 in uint8 equals −1.
    strange = targets[(targets > 1) | ((targets < 0) & (targets != -1))]
    if len(strange):
        raise ValueError(
            "targets must be 0, 1, soft labels between, or unknown (-1 or NaN), "
            f"got {strange[0].item():g}: {hint}"
        )
