"""The adaptive half of the method: statistics of an epoch's outputs, and the ratios that they move."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor

from tailmask import functional
from tailmask.buffers import ExactBuffers
from tailmask.errors import listing, nearest
from tailmask.masking.counting import check_counts, stack_counts
from tailmask.masking.labels import Batch, raise_faults

__all__ = ["AdaptiveRatio", "Gap", "RatioUpdate"]

Gap = Callable[[Tensor], Tensor]  # counts (2, C, num_bins) → D_c (C,)

_GAPS: dict[str, Gap] = {"divergence": functional.divergence_gap, "rate": functional.rate_gap}
_DEFAULT_RATE = {"rate": 0.1}
_DEFAULT_WARMUP = {"rate": 5}
_INITIAL_RATIOS = ("class", "mean", "min", "max")
# Entries of a batch whose statistics are taken at once.
_BLOCK = 2**18
# A label kept less often than this hardly trains its class any more.
_HARDLY_KEPT = 1e-3


class RatioUpdate(NamedTuple):
    """What one `PartialLabelMasking.step` did, to log and to plot; tensors on the criterion's device."""

    target_ratio: Tensor  # (C,) r̄ of the next epoch
    gap: Tensor  # (C,) D_c, the signal that moved the ratios
    divergence: Tensor  # (2, C) D⁻ and D⁺ before normalisation; NaN where a label was not seen
    keep: Tensor  # (2, C) share of negatives and of positives that the next epoch keeps


class AdaptiveRatio(ExactBuffers):
    """Target ratios of the classes, the statistics that move them, and the keep probabilities they imply.

    The base of `PartialLabelMasking`, which documents the arguments. Ratios and class counts are buffers. The
    statistics are part of the state_dict but no buffers: DDP would overwrite every rank's with rank 0's.
    """

    class_counts: Tensor  # (2, C) negatives and positives in the data
    target_ratio: Tensor  # (C,) r̄
    num_steps: Tensor  # ()
    keep: Tensor  # (2, C) keep probabilities of the current epoch, derived from the ratios

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
        classes: Sequence[str] | None,
    ) -> None:
        super().__init__()
        class_counts = check_counts(class_counts)
        if not callable(adapt) and str(adapt) not in _GAPS:
            raise ValueError(f"adapt is not {adapt!r}: {nearest(str(adapt), _GAPS)}, or pass a function")
        self.adapt = adapt
        self.rate = _DEFAULT_RATE.get(str(adapt), 0.01) if rate is None else float(rate)
        self.warmup = _DEFAULT_WARMUP.get(str(adapt), 0) if warmup is None else warmup
        self.num_bins = num_bins
        self.ratio_range = ratio_range
        if not 0 <= self.rate < math.inf:
            raise ValueError(f"rate must be 0 or more and finite, got {self.rate:g}")
        if num_bins < 2 or (adapt == "rate" and num_bins % 2):
            raise ValueError(f'num_bins must be 2 or more, and even for adapt="rate", got {num_bins}')
        if ratio_range is not None and not 0 <= ratio_range[0] < ratio_range[1]:
            raise ValueError(f"ratio_range must be (low, high) with 0 <= low < high, got {ratio_range}")
        num_classes = self.num_classes = class_counts.shape[1]
        if classes is not None and len(classes) != num_classes:
            raise ValueError(f"classes must name {num_classes} classes, got {len(classes)} names")
        self.classes = None if classes is None else tuple(classes)
        self.register_buffer("class_counts", class_counts.clone())
        self.register_buffer("target_ratio", self._clip(self._initial_ratio(initial_ratio)))
        self.register_buffer("num_steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("keep", torch.ones(2, num_classes), persistent=False)
        self.counts = torch.zeros(2, num_classes, num_bins, dtype=torch.int64)
        self.faults = torch.zeros(2, dtype=torch.int64)  # as in Batch
        self._hardly_kept: set[int] = set()
        self._refresh_keep()
        self._warn_of_incomplete_classes()

    @property
    def class_ratio(self) -> Tensor:
        """Ratio of positives to negatives in the data, r_c, shape (C,)."""
        return functional.class_ratio(self.class_counts[1], self.class_counts[0])

    def set_class_counts(self, positives: Any, negatives: Any) -> None:
        """Tell the loss that the data's class counts have changed; the target ratios stay.

        For samplers that draw other samples each epoch: Eq. 3 holds only for the ratio of what is drawn.
        """
        class_counts = check_counts(stack_counts(positives, negatives))
        if class_counts.shape != self.class_counts.shape:
            raise ValueError(
                f"class counts must be of {self.num_classes} classes, got {class_counts.shape[1]}: "
                "did they come from another data set?"
            )
        self.class_counts.copy_(class_counts)
        self._refresh_keep()

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
        gap = (_GAPS[self.adapt] if isinstance(self.adapt, str) else self.adapt)(counts)
        if gap.shape != (self.num_classes,):
            raise ValueError(
                f"adapt must give one gap a class, shape ({self.num_classes},), got {tuple(gap.shape)}"
            )
        gap = gap.where(self._complete(), 0.0)
        strange = (~gap.isfinite()).nonzero().flatten().tolist()
        if strange:
            raise ValueError(
                f"adapt must give finite gaps, got {gap[strange[0]]:g} for class {self._listing(strange)}"
            )
        if self.num_steps >= self.warmup:
            self.target_ratio.copy_(self._clip(functional.next_ratio(self.target_ratio, gap, self.rate)))
            self._refresh_keep()
            self._warn_of_hardly_kept_labels()
        self.num_steps += 1
        self.reset()
        return RatioUpdate(self.target_ratio.clone(), gap, functional.divergence(counts), self.keep.clone())

    def reset(self) -> None:
        """Forget the statistics recorded since the last `step`; the ratios stay."""
        self.counts.zero_()
        self.faults.zero_()

    def summed_statistics(self) -> tuple[Tensor, Tensor]:
        """Counts (2, C, num_bins) and faults (2,) summed over the process group; all ranks must call it."""
        distributed = torch.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            return self.counts.clone(), self.faults.clone()
        statistics = torch.cat([self.counts.flatten(), self.faults])
        distributed.all_reduce(statistics)
        return statistics[:-2].view_as(self.counts), statistics[-2:]

    def _record(self, batch: Batch) -> None:
        logits, known = batch.logits.detach(), batch.known
        targets = batch.targets.int() if known is None else batch.targets
        if torch.compiler.is_compiling() or logits.numel() <= _BLOCK:
            self.counts.add_(functional.histogram(logits.sigmoid(), targets, self.num_bins, known=known))
        else:  # class by class within a block, whose temporaries stay in the processor's cache
            for start in range(0, self.num_classes, width := max(1, _BLOCK // len(logits))):
                block = slice(start, start + width)
                self.counts[:, block] += functional.histogram(
                    logits[:, block].sigmoid(),
                    targets[:, block],
                    self.num_bins,
                    known=None if known is None else known[:, block],
                )
        if batch.faults is not None:
            self.faults += batch.faults

    def _complete(self) -> Tensor:
        """Classes that have both labels; the others are neither masked nor adapted."""
        return (self.class_counts > 0).all(dim=0)

    def _initial_ratio(self, choice: Any) -> Tensor:
        class_ratio, complete = self.class_ratio, self._complete()
        if not isinstance(choice, str):
            chosen = self._given_ratio(choice).to(class_ratio)
        elif choice not in _INITIAL_RATIOS:
            raise ValueError(f"initial_ratio is not {choice!r}: {nearest(choice, _INITIAL_RATIOS)}")
        elif choice == "class" or not complete.any():
            chosen = class_ratio
        else:
            chosen = getattr(class_ratio[complete], choice)().expand_as(class_ratio)
        return torch.where(complete, chosen, class_ratio)

    def _given_ratio(self, values: Any) -> Tensor:
        expected = f"{', '.join(_INITIAL_RATIOS)} or numbers of shape ({self.num_classes},)"
        try:
            ratio = torch.as_tensor(values, dtype=torch.float32)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"initial_ratio must be {expected}, got {values!r}") from None
        if ratio.shape != (self.num_classes,):
            raise ValueError(f"initial_ratio must be {expected}, got shape {tuple(ratio.shape)}")
        strange = ratio[~(ratio.isfinite() & (ratio > 0))].tolist()
        if strange:
            values = listing(f"{value:g}" for value in strange)
            raise ValueError(f"initial_ratio must be finite and above 0, got {values}")
        return ratio

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

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self.counts = fn(self.counts)
        self.faults = fn(self.faults)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "counts"] = self.counts.clone()
        destination[prefix + "faults"] = self.faults.clone()

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
        for name in ("class_counts", "target_ratio", "num_steps", "counts", "faults"):
            _check_state(name, state_dict.get(prefix + name))
        counts = state_dict.get(prefix + "counts", self.counts)
        if counts.shape != self.counts.shape:
            raise ValueError(
                f"the state must be of {self.num_classes} classes and {self.num_bins} bins, "
                f"got counts of shape {tuple(counts.shape)}: build the criterion as the saved one was"
            )
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        for name in ("counts", "faults"):
            key = prefix + name
            if key in state_dict:
                getattr(self, name).copy_(state_dict[key])
            else:
                missing_keys.append(key)
            if key in unexpected_keys:
                unexpected_keys.remove(key)
        self._refresh_keep()


def _check_state(name: str, value: Any) -> None:
    """A part of a state must be what a saved loss has there: a damaged one would spoil training silently."""
    if value is None or (isinstance(value, Tensor) and value.is_meta):
        return
    ratios = name == "target_ratio"
    if not isinstance(value, Tensor) or value.is_floating_point() != ratios:
        raise ValueError(f"the state's {name} must be a tensor of {'ratios' if ratios else 'whole numbers'}")
    if not bool(((value > 0) & value.isfinite() if ratios else value >= 0).all()):
        kind = "finite ratios above 0" if ratios else "numbers of 0 or more"
        raise ValueError(f"the state's {name} must hold {kind}: the file is damaged or of another criterion")
