"""The adaptive half of the method: statistics of an epoch's outputs, and the ratios that they move."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from tailmask import functional
from tailmask.errors import listing
from tailmask.masking.counting import check_counts, stack_counts
from tailmask.masking.labels import raise_faults
from tailmask.masking.options import (
    GAPS,
    Gap,
    check_adapt,
    check_epochs,
    read_bins,
    read_classes,
    read_initial_ratio,
    read_range,
    read_rate,
    read_warmup,
)
from tailmask.masking.statistics import OutputStatistics, check_state

__all__ = ["AdaptiveRatio", "RatioUpdate"]

# A label kept less often than this hardly trains its class any more.
_HARDLY_KEPT = 1e-3


class RatioUpdate(NamedTuple):
    """What one `PartialLabelMasking.step` did, to log and to plot; tensors on the criterion's device."""

    target_ratio: Tensor  # (C,) r̄ of the next epoch
    gap: Tensor  # (C,) D_c, the signal that moved the ratios
    divergence: Tensor  # (2, C) D⁻ and D⁺ before normalisation; NaN where a label was not seen
    keep: Tensor  # (2, C) share of negatives and of positives that the next epoch keeps


class AdaptiveRatio(OutputStatistics):
    """Target ratios of the classes, the statistics that move them, and the keep probabilities they imply.

    The base of `PartialLabelMasking`, which documents the arguments. Ratios and class counts are buffers.
    """

    class_counts: Tensor  # (2, C) negatives and positives in the data
    target_ratio: Tensor  # (C,) r̄
    num_steps: Tensor  # ()
    keep: Tensor  # (2, C) keep probabilities of the current epoch, derived from the ratios
    trained_keep: Tensor  # (2, C) those that the last training pass was masked by

    def __init__(
        self,
        class_counts: Tensor,
        *,
        rate: float | None,
        adapt: Literal["divergence", "rate"] | Gap,
        num_bins: int,
        initial_ratio: Literal["class", "mean", "min", "max"] | Tensor | Sequence[float],
        ratio_range: tuple[float, float] | None,
        warmup: int | None,
        epochs: int | None,
        classes: Sequence[str] | None,
    ) -> None:
        class_counts = check_counts(class_counts)
        num_classes, device = class_counts.shape[1], class_counts.device
        check_adapt(adapt)
        check_epochs(epochs)
        super().__init__(num_classes, read_bins(num_bins, adapt), device=device)
        self.adapt = adapt
        self.rate = read_rate(rate, adapt, epochs)
        self.warmup = read_warmup(warmup, adapt, epochs)
        self.ratio_range = read_range(ratio_range)
        self.classes = read_classes(classes, num_classes)
        self.initial_ratio = initial_ratio
        self.register_buffer("class_counts", class_counts.clone())
        self.register_buffer("target_ratio", self._start())
        self.register_buffer("num_steps", torch.zeros((), dtype=torch.int64, device=device))
        keep = torch.ones(2, num_classes, dtype=torch.float32, device=device)
        self.register_buffer("keep", keep, persistent=False)
        self._refresh_keep()
        self.register_buffer("trained_keep", self.keep.clone())
        self._hardly_kept: set[int] = set()
        self._has_warned_of_two_passes = False
        self._warn_of_incomplete_classes()
        self._warn_of_too_few_classes()

    @property
    def class_ratio(self) -> Tensor:
        """Ratio of positives to negatives in the data, r_c, shape (C,)."""
        return functional.class_ratio(self.class_counts[1], self.class_counts[0])

    def set_class_counts(self, positives: Any, negatives: Any) -> None:
        """Tell the loss that the data's class counts have changed; the target ratios stay.

        For samplers that draw other samples each epoch: Eq. 3 holds only for the ratio of what is drawn. A
        class that has had one label only, and so no target ratio, starts from its own ratio where it gets
        both.
        """
        class_counts = check_counts(stack_counts(positives, negatives))
        if class_counts.shape != self.class_counts.shape:
            raise ValueError(
                f"class counts must be of {self.num_classes} classes, got {class_counts.shape[1]}: "
                "did they come from another data set?"
            )
        # A class that never had both labels has its own ratio, as good as 0 or infinite, in a target's place.
        has_none = ~self._complete() & (self.target_ratio == self.class_ratio)
        self.class_counts.copy_(class_counts)
        self.target_ratio.copy_(self._clip(self.class_ratio.where(has_none, self.target_ratio)))
        self._refresh_keep()

    def extend_class_counts(self, positives: Any, negatives: Any) -> None:
        """Tell the loss that there are more data by now: how far the ratios are from their start stays.

        For training in parts. The start, `initial_ratio`, is that of all data so far.
        """
        moved = self.target_ratio / self._start()
        self.set_class_counts(positives, negatives)
        self.target_ratio.copy_(self._clip(moved * self._start()))
        self._refresh_keep()

    def is_idle_for(self, num_epochs: int) -> bool:
        """Whether so many more epochs mask nothing, because the warm-up leaves the ratios for that long."""
        if self.warmup == 0 or bool((self.keep < 1).any()):
            return False
        return int(self.num_steps) + num_epochs <= self.warmup + 1

    @torch.no_grad()
    def step(self) -> RatioUpdate:
        """Move the target ratios by what was recorded since the last step (Eq. 5 to 7); call once an epoch.

        In a process group all ranks must call it: their counts are summed, so that every rank gets the ratios
        that one process would have got. Where nothing was recorded, logits or gaps were not finite or targets
        not allowed, it raises a ValueError and changes nothing; `reset` forgets such statistics.
        """
        counts, faults = self.summed_statistics()
        raise_faults(faults)
        if not counts.any():
            raise ValueError(
                "step() found nothing recorded: call the criterion in training mode with gradients enabled, "
                "or update(), before step()"
            )
        complete = self._complete()
        # A class that cannot be adapted has no say in what the others are compared with.
        compared = counts.where(complete[:, None], 0)
        gap = (GAPS[self.adapt] if isinstance(self.adapt, str) else self.adapt)(compared)
        if gap.shape != (self.num_classes,):
            raise ValueError(
                f"adapt must give one gap a class, shape ({self.num_classes},), got {tuple(gap.shape)}"
            )
        gap = gap.where(complete, 0.0)
        strange = (~gap.isfinite()).nonzero().flatten().tolist()
        if strange:
            raise ValueError(
                f"adapt must give finite gaps, got {gap[strange[0]]:g} for class {self._listing(strange)}"
            )
        self._warn_of_two_passes()
        if self.num_steps >= self.warmup:
            self.target_ratio.copy_(self._clip(functional.next_ratio(self.target_ratio, gap, self.rate)))
            self._refresh_keep()
            self._warn_of_hardly_kept_labels()
        self.num_steps += 1
        self.reset()
        return RatioUpdate(self.target_ratio.clone(), gap, functional.divergence(counts), self.keep.clone())

    def _complete(self) -> Tensor:
        """Classes that have both labels; the others are neither masked nor adapted."""
        return (self.class_counts > 0).all(dim=0)

    def _start(self) -> Tensor:
        return self._clip(read_initial_ratio(self.initial_ratio, self.class_ratio, self._complete()))

    def _clip(self, ratio: Tensor) -> Tensor:
        if self.ratio_range is None:
            return ratio
        return ratio.clamp(*self.ratio_range).where(self._complete(), ratio)

    def _refresh_keep(self) -> None:
        keep = functional.keep_probability(self.class_ratio, self.target_ratio)
        self.keep.copy_(keep.where(self._complete(), 1.0))

    def _warn_of_incomplete_classes(self) -> None:
        for number, what in zip(self.class_counts, ("negatives", "positives"), strict=True):
            classes = (number == 0).nonzero().flatten().tolist()
            if classes:
                warnings.warn(
                    f"{len(classes)} of {self.num_classes} classes have no {what} in the training data "
                    f"(class {self._listing(classes)}): they are trained unmasked and their ratio stays",
                    stacklevel=5,
                )

    def _warn_of_too_few_classes(self) -> None:
        number = int(self._complete().sum())
        if self.adapt == "divergence" and self.rate > 0 and number < 2:
            warnings.warn(
                f'adapt="divergence" compares classes, and moves no ratio while fewer than two have both '
                f'labels, here {number}: pass adapt="rate"',
                stacklevel=5,
            )

    def _warn_of_two_passes(self) -> None:
        if self._by_forward and self._by_update and not self._has_warned_of_two_passes:
            self._has_warned_of_two_passes = True
            warnings.warn(
                "both forward and update() have recorded outputs since the last step, and the ratios move by "
                "all of them: to move them by those of update() alone, build the criterion with record=False",
                stacklevel=4,
            )

    def _warn_of_hardly_kept_labels(self) -> None:
        hardly = (self.keep.amin(dim=0) < _HARDLY_KEPT).nonzero().flatten().tolist()
        new = [index for index in hardly if index not in self._hardly_kept]
        if new:
            self._hardly_kept.update(new)
            warnings.warn(
                f"fewer than {_HARDLY_KEPT:.1%} of one side's labels are kept for class "
                f"{self._listing(new)}: lower the rate, or bound the ratios with ratio_range",
                stacklevel=4,
            )

    def _listing(self, indices: Sequence[int]) -> str:
        return listing(indices if self.classes is None else [self.classes[index] for index in indices])

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for name in ("class_counts", "num_steps"):
            check_state(name, state_dict.get(prefix + name))
        for name in ("target_ratio", "trained_keep"):
            check_state(name, state_dict.get(prefix + name), ratios=True)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        self._refresh_keep()
