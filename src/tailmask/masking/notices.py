"""Warnings about a criterion: training goes on, but perhaps not as it was meant."""

from __future__ import annotations

import torch
from torch import Tensor

from tailmask._util.messages import warn
from tailmask.masking.criterion_options import Options, StatisticsSource
from tailmask.masking.ratios import has_both_labels

__all__ = ["StepNotices", "incomplete_classes", "nothing_recorded", "too_few_classes", "wrong_shift"]

# A label kept less often than this hardly trains its class any more.
_HARDLY_KEPT = 1e-3


def incomplete_classes(options: Options, class_counts: Tensor) -> None:
    """Name the classes that lack a label in the training data."""
    for number, label in zip(class_counts, ("negatives", "positives"), strict=True):
        classes = (number == 0).nonzero().flatten().tolist()
        if classes:
            warn(
                f"{len(classes)} of {options.num_classes} classes have no {label} in the training data "
                f"(class {options.name_classes(classes)}): they are trained unmasked and their ratio stays"
            )


def too_few_classes(options: Options, class_counts: Tensor, *, rate: float) -> None:
    """Say that the paper's update, which compares classes, has none to compare."""
    number = int(has_both_labels(class_counts).sum())
    if options.adapt_name == "divergence" and rate > 0 and number < 2:
        warn(
            f'adapt="divergence" compares classes, and moves no ratio while fewer than two have both '
            f'labels, here {number}: pass adapt="prevalence"'
        )


class StepNotices:
    """What a criterion has recorded from since the last step, and what its steps have warned of already.

    Each fact is told once.
    """

    def __init__(self) -> None:
        self.by_forward = self.by_update = False  # who has recorded since the last step
        self._has_told_of_two_sources = self._has_told_of_equal_ranks = False
        self._hardly_kept: set[int] = set()

    def forget_sources(self) -> None:
        """Begin to record anew."""
        self.by_forward = self.by_update = False

    def look_at_counts(self, own: Tensor, *, summed: Tensor) -> None:
        """Warn of counts that are the same on all ranks, and of counts from two passes over data."""
        if not self._has_told_of_equal_ranks and _are_ranks_equal(own, summed):
            self._has_told_of_equal_ranks = True
            number = torch.distributed.get_world_size()
            warn(
                f"all {number} ranks have recorded the same counts, so each sample seems to count {number} "
                "times: give each rank its own part of the data, or call update() on one rank only"
            )
        if self.by_forward and self.by_update and not self._has_told_of_two_sources:
            self._has_told_of_two_sources = True
            warn(
                "both forward and update() have recorded outputs since the last step, and the ratios move "
                "by all of them: to use those of update() alone, build the criterion with "
                'statistics="validation"'
            )

    def look_at_keep(self, options: Options, keep: Tensor) -> None:
        """Name the classes that lose nearly all labels of one side."""
        hardly = (keep.amin(dim=0) < _HARDLY_KEPT).nonzero().flatten().tolist()
        new = [index for index in hardly if index not in self._hardly_kept]
        if new:
            self._hardly_kept.update(new)
            warn(
                f"fewer than {_HARDLY_KEPT:.1%} of one side's labels are kept for class "
                f"{options.name_classes(new)}: lower the rate, or bound the ratios with ratio_range"
            )


def _are_ranks_equal(own: Tensor, summed: Tensor) -> bool:
    """Whether all ranks have recorded the same counts, as if each had seen all data; rank 0 alone can say."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() > 0:
        return False
    number = distributed.get_world_size()
    return number > 1 and summed.equal(number * own)


def nothing_recorded(statistics: StatisticsSource) -> str:
    """What to do where a step finds no outputs.

    >>> nothing_recorded("validation")
    'step() found nothing recorded: call update() with the outputs for validation data before step(), ...'
    """
    if statistics == "validation":
        return (
            "step() found nothing recorded: call update() with the outputs for validation data before "
            'step(), or build the criterion with statistics="training"'
        )
    return (
        "step() found nothing recorded: call the criterion in training mode with gradients enabled, "
        "or update(), before step()"
    )


def wrong_shift(loss: object) -> None:
    """Say that the prior shift does not give probabilities for a loss."""
    warn(
        f"prior_shift holds for binary cross-entropy, not for {loss!r}: "
        "the shifted outputs are no probabilities"
    )
