"""Checks that all callbacks share: which outputs move a criterion's ratios, and whether early enough."""

from __future__ import annotations

from tailmask._util.messages import warn
from tailmask.masking import PartialLabelMasking

__all__ = ["refuse_damping", "warn_if_idle", "warn_of_no_passes"]


def warn_if_idle(criterion: PartialLabelMasking, num_epochs: int) -> None:
    """Warn if training ends, after `num_epochs` more epochs, before its criterion masks anything.

    >>> warn_if_idle(PartialLabelMasking.from_counts([1, 2], [3, 2], adapt="prevalence"), 60)
    """
    if criterion.is_idle_for(num_epochs):
        epochs = int(criterion.num_steps) + num_epochs
        fits_itself = criterion.adapt == "prevalence" and epochs > 2
        options = f"epochs={epochs} and no warmup" if fits_itself else "a smaller warmup"
        reason = f"training has {num_epochs} epochs to go"
        remedy = f"train for more epochs, or build the criterion with {options}"
        if criterion.schedule.is_idle:
            reason = f"hold={criterion.schedule.hold} skips the others"
            remedy = "build the criterion with a larger hold"
        warn(
            f"the ratios do not move in the first {criterion.warmup} steps, and {reason}, so nothing is "
            f"masked: {remedy}"
        )


def refuse_damping(criterion: PartialLabelMasking) -> None:
    """Refuse a criterion whose λ follows the learning rate, which a callback does not know.

    >>> refuse_damping(PartialLabelMasking.from_counts([1, 2], [3, 2], hold=40))
    """
    if criterion.schedule.damp:
        raise ValueError(
            "damp=True needs step(lr_factor=...) in your own training loop, but a callback does not know the "
            "factor: build the criterion with hold instead of damp"
        )


def warn_of_no_passes(missing: str, remedy: str) -> None:
    """Warn if held-out outputs should move the ratios, but training has no pass that produces them."""
    warn(f'with statistics="validation" and no {missing}, no ratio moves and nothing is masked: {remedy}')
