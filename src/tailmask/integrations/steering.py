"""Which passes move a criterion's ratios, and whether they do in time: what all callbacks share."""

from __future__ import annotations

import warnings
from typing import Any, Literal, get_args

from tailmask.errors import nearest
from tailmask.masking import PartialLabelMasking

__all__ = ["Statistics", "check_statistics", "warn_if_idle", "warn_of_no_passes"]

Statistics = Literal["training", "validation"]


def check_statistics(statistics: Any) -> None:
    """Refuse what names no pass.

    >>> check_statistics("testing")
    Traceback (most recent call last):
    ValueError: statistics is not 'testing': ...
    """
    if statistics not in get_args(Statistics):
        raise ValueError(
            f"statistics is not {statistics!r}: {nearest(str(statistics), get_args(Statistics))}"
        )


def warn_if_idle(criterion: PartialLabelMasking, num_epochs: int) -> None:
    """Warn where a training with so many epochs to go is over before its criterion masks anything.

    >>> warn_if_idle(PartialLabelMasking.from_counts([1, 2], [3, 2], adapt="rate"), 60)
    """
    if criterion.is_idle_for(num_epochs):
        epochs = int(criterion.num_steps) + num_epochs
        fits_itself = criterion.adapt == "rate" and epochs > 2
        remedy = f"epochs={epochs} and no warmup" if fits_itself else "a smaller warmup"
        warnings.warn(
            f"the first {criterion.warmup} steps leave the ratios as they are, and training has "
            f"{num_epochs} epochs to go, so nothing is masked: train for more, or build the criterion with "
            f"{remedy}",
            stacklevel=2,
        )


def warn_of_no_passes(missing: str, remedy: str) -> None:
    """Warn where held-out outputs are to move the ratios, and a training has no pass that makes them."""
    warnings.warn(
        f'statistics="validation" moves no ratio in a training without {missing}, so nothing is masked: '
        f"{remedy}",
        stacklevel=2,
    )
