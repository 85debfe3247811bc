"""Which passes move a criterion's ratios, and whether they do in time: what all callbacks share."""

from __future__ import annotations

from tailmask._util.messages import warn
from tailmask.masking import PartialLabelMasking

__all__ = ["refuse_damping", "warn_if_idle", "warn_of_no_passes"]


def warn_if_idle(criterion: PartialLabelMasking, num_epochs: int) -> None:
    """Warn where a training with so many epochs to go is over before its criterion masks anything.

    >>> warn_if_idle(PartialLabelMasking.from_counts([1, 2], [3, 2], adapt="prevalence"), 60)
    """
    if criterion.is_idle_for(num_epochs):
        epochs = int(criterion.num_steps) + num_epochs
        fits_itself = criterion.adapt == "prevalence" and epochs > 2
        options = f"epochs={epochs} and no warmup" if fits_itself else "a smaller warmup"
        reason = f"training has {num_epochs} epochs to go"
        remedy = f"train for more, or build the criterion with {options}"
        if criterion.schedule.is_idle:
            reason = f"hold={criterion.schedule.hold} skips the others"
            remedy = "build the criterion with a larger hold"
        warn(
            f"the first {criterion.warmup} steps leave the ratios as they are, and {reason}, so nothing is "
            f"masked: {remedy}"
        )


def refuse_damping(criterion: PartialLabelMasking) -> None:
    """Refuse a criterion whose λ follows the learning rate, which a callback does not know.

    >>> refuse_damping(PartialLabelMasking.from_counts([1, 2], [3, 2], hold=40))
    """
    if criterion.schedule.damp:
        raise ValueError(
            "damp=True needs step(lr_factor=...) from a training loop of your own, which a callback does not "
            "call: build the criterion with hold in its place"
        )


def warn_of_no_passes(missing: str, remedy: str) -> None:
    """Warn where held-out outputs are to move the ratios, and a training has no pass that makes them."""
    warn(
        f'statistics="validation" moves no ratio in a training without {missing}, so nothing is masked: '
        f"{remedy}"
    )
