"""Which passes move a criterion's ratios, and whether they do in time: what all callbacks share."""

from __future__ import annotations

from tailmask._util.messages import warn
from tailmask.masking import PartialLabelMasking

__all__ = ["warn_if_idle", "warn_of_no_passes"]


def warn_if_idle(criterion: PartialLabelMasking, num_epochs: int) -> None:
    """Warn where a training with so many epochs to go is over before its criterion masks anything.

    >>> warn_if_idle(PartialLabelMasking.from_counts([1, 2], [3, 2], adapt="prevalence"), 60)
    """
    if criterion.is_idle_for(num_epochs):
        epochs = int(criterion.num_steps) + num_epochs
        fits_itself = criterion.adapt == "prevalence" and epochs > 2
        remedy = f"epochs={epochs} and no warmup" if fits_itself else "a smaller warmup"
        warn(
            f"the first {criterion.warmup} steps leave the ratios as they are, and training has "
            f"{num_epochs} epochs to go, so nothing is masked: train for more, or build the criterion with "
            f"{remedy}"
        )


def warn_of_no_passes(missing: str, remedy: str) -> None:
    """Warn where held-out outputs are to move the ratios, and a training has no pass that makes them."""
    warn(
        f'statistics="validation" moves no ratio in a training without {missing}, so nothing is masked: '
        f"{remedy}"
    )
