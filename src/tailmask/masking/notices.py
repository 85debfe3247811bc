"""Warnings about a criterion: training goes on, but perhaps not as it was meant."""

from __future__ import annotations

import torch
from torch import Tensor

from tailmask._util.messages import warn
from tailmask.masking.criterion_options import Options
from tailmask.masking.ratios import has_both_labels

__all__ = [
    "equal_ranks",
    "hardly_kept",
    "incomplete_classes",
    "too_few_classes",
    "two_sources",
    "wrong_shift",
]

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


def two_sources() -> None:
    """Say that a step has used outputs of training and of `update` together."""
    warn(
        "both forward and update() have recorded outputs since the last step, and the ratios move by all of "
        'them: to use those of update() alone, build the criterion with statistics="validation"'
    )


def equal_ranks(own: Tensor, *, summed: Tensor) -> bool:
    """Say that all ranks have recorded the same counts, as if each had seen all data; whether it was said."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() > 0:
        return False
    number = distributed.get_world_size()
    if number == 1 or not summed.equal(number * own):
        return False
    warn(
        f"all {number} ranks have recorded the same counts, so each sample seems to count {number} times: "
        "give each rank its own part of the data, or call update() on one rank only"
    )
    return True


def hardly_kept(options: Options, keep: Tensor, named: set[int]) -> None:
    """Name the classes that lose nearly all labels of one side, once each; `named` have been named before."""
    hardly = (keep.amin(dim=0) < _HARDLY_KEPT).nonzero().flatten().tolist()
    new = [index for index in hardly if index not in named]
    if new:
        named.update(new)
        warn(
            f"fewer than {_HARDLY_KEPT:.1%} of one side's labels are kept for class "
            f"{options.name_classes(new)}: lower the rate, or bound the ratios with ratio_range"
        )


def wrong_shift(loss: object) -> None:
    """Say that the prior shift does not give probabilities for a loss."""
    warn(
        f"prior_shift holds for binary cross-entropy, not for {loss!r}: "
        "the shifted outputs are no probabilities"
    )
