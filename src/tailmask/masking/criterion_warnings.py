"""Warnings about a criterion: training continues, but maybe not as intended."""

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
    """Warn about classes without positives or without negatives in the training data."""
    for number, label in zip(class_counts, ("negatives", "positives"), strict=True):
        classes = (number == 0).nonzero().flatten().tolist()
        if classes:
            warn(
                f"{len(classes)} of {options.num_classes} classes have no {label} in the training data "
                f"(class {options.name_classes(classes)}): they are trained unmasked and keep their ratio"
            )


def too_few_classes(options: Options, class_counts: Tensor, *, rate: float) -> None:
    """Warn if the paper's update has fewer than two classes to compare."""
    number = int(has_both_labels(class_counts).sum())
    if options.adapt_name == "divergence" and rate > 0 and number < 2:
        warn(
            f'adapt="divergence" compares classes and needs two with both labels to move a ratio, '
            f'got {number}: pass adapt="prevalence"'
        )


class StepNotices:
    """The sources of the outputs since the last step, and the warnings already given.

    Each warning is given once.
    """

    def __init__(self) -> None:
        self.by_forward = self.by_update = False  # which methods recorded outputs since the last step
        self._has_told_of_two_sources = self._has_told_of_equal_ranks = False
        self._hardly_kept: set[int] = set()

    def forget_sources(self) -> None:
        """Forget which methods recorded outputs since the last step."""
        self.by_forward = self.by_update = False

    def look_at_counts(self, own: Tensor, *, summed: Tensor) -> None:
        """Warn about equal counts on all ranks, and about counts from both `forward` and `update`."""
        if not self._has_told_of_equal_ranks and _are_ranks_equal(own, summed):
            self._has_told_of_equal_ranks = True
            number = torch.distributed.get_world_size()
            warn(
                f"all {number} ranks recorded the same counts, so each sample probably counts {number} "
                "times: give each rank its own part of the data, or call update() on one rank only"
            )
        if self.by_forward and self.by_update and not self._has_told_of_two_sources:
            self._has_told_of_two_sources = True
            warn(
                "both forward and update() recorded outputs since the last step, and the ratios move "
                "by all of them: to use only those of update(), build the criterion with "
                'statistics="validation"'
            )

    def look_at_keep(self, options: Options, keep: Tensor) -> None:
        """Warn about classes that lose nearly all positives or nearly all negatives."""
        hardly = (keep.amin(dim=0) < _HARDLY_KEPT).nonzero().flatten().tolist()
        new = [index for index in hardly if index not in self._hardly_kept]
        if new:
            self._hardly_kept.update(new)
            warn(
                f"fewer than {_HARDLY_KEPT:.1%} of the positives or of the negatives are kept for class "
                f"{options.name_classes(new)}: lower the rate, or bound the ratios with ratio_range"
            )


def _are_ranks_equal(own: Tensor, summed: Tensor) -> bool:
    """True if all ranks seem to have the same counts, as if each saw all data; only rank 0 checks."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() > 0:
        return False
    number = distributed.get_world_size()
    return number > 1 and summed.equal(number * own)


def nothing_recorded(statistics: StatisticsSource) -> str:
    """The error message for a step without recorded outputs.

    >>> nothing_recorded("validation")
    'step() needs recorded outputs, got none: call update() with the outputs on validation data before ...'
    """
    if statistics == "validation":
        return (
            "step() needs recorded outputs, got none: call update() with the outputs on validation data "
            'before step(), or build the criterion with statistics="training"'
        )
    return (
        "step() needs recorded outputs, got none: call the criterion in training mode with gradients "
        "enabled, or call update(), before step()"
    )


def wrong_shift(loss: object) -> None:
    """Warn that the prior shift does not give probabilities for a loss."""
    warn(
        f"prior_shift is valid for binary cross-entropy, not for {loss!r}: "
        "the shifted outputs are not probabilities"
    )
