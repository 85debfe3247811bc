"""Partial Label Masking for learners that are no networks: their classes' ratios, and what moves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tailmask import functional
from tailmask.data.splits import fold_numbers
from tailmask.learners.arrays import Array
from tailmask.masking import count_classes, ratios
from tailmask.masking.histograms import OutputHistograms
from tailmask.masking.labels import read
from tailmask.masking.options import InitialRatio, Options
from tailmask.masking.schedule import Schedule

__all__ = ["Masking", "RatioTrack", "inner_cuts"]

# With more rows than these, one of the inner folds is held out; else each of them in turn.
_FOLDS, _FEW_ROWS = 4, 3000


@dataclass(frozen=True)
class Masking:
    """How a learner masks; all but `updates` mean what they mean in `PartialLabelMasking`.

    `updates` is how often the ratios are moved in a fit.

    >>> Masking(adapt="divergence", rate=0.1).schedule(warmup=0)
    Schedule(rate=0.1, warmup=0)
    """

    adapt: Literal["divergence", "prevalence"] = "prevalence"
    rate: float | None = None
    initial_ratio: InitialRatio = "class"
    num_bins: int = 10
    ratio_range: tuple[float, float] | None = None
    warmup: int | None = None
    updates: int = 8

    def __post_init__(self) -> None:
        if self.updates < 1:
            raise ValueError(f"masking needs at least one update, got {self.updates}")
        self.options(1)  # refuses what makes no sense, and so does the schedule
        self.schedule(warmup=0)

    def options(self, num_classes: int) -> Options:
        """The options of the ratio updates."""
        return Options.read(
            num_classes,
            adapt=self.adapt,
            num_bins=self.num_bins,
            initial_ratio=self.initial_ratio,
            ratio_range=self.ratio_range,
        )

    def schedule(self, *, warmup: int) -> Schedule:
        """λ of each update; `warmup` is the learner's default."""
        warmup = warmup if self.warmup is None else self.warmup
        # The default rate is for training of which half is a warm-up. Here, all other updates move ratios.
        moves = max(1, self.updates - warmup)
        return Schedule.of(self.adapt, rate=self.rate, warmup=warmup, epochs=2 * moves)


class RatioTrack:
    """The target ratios of all classes during a fit, moved by outputs for held-out rows.

    >>> targets = np.array([[1], [1], [0], [0], [0], [0]])
    >>> track = RatioTrack(Masking(), targets)
    >>> track.update(torch.full((6, 1), -2.0), targets)  # never predicted, so the ratio goes up
    >>> track.keep
    tensor([[0.6065],
            [1.0000]])
    """

    def __init__(self, masking: Masking, targets: Array, *, warmup: int = 0) -> None:
        self.class_counts = count_classes(targets)  # (2, C)
        self.options = masking.options(targets.shape[1])
        self.schedule = masking.schedule(warmup=warmup)
        self.target_ratio = ratios.initial_ratio(self.options, self.class_counts)  # (C,)
        self.num_updates = 0

    @property
    def keep(self) -> Tensor:
        """The keep probabilities of Eq. 3: (2, C)."""
        return ratios.keep(self.class_counts, self.target_ratio)

    @property
    def prior_shift(self) -> Tensor:
        """log(r / r̄) of each class (C,), which undoes the ratios where outputs follow them."""
        negatives, positives = self.keep.log().unbind()
        return negatives - positives

    def label_weights(self, targets: Array) -> npt.NDArray[np.float32]:
        """The weight of each label (N, C): its keep probability; 0 where it is unknown."""
        labels = torch.from_numpy(targets)
        weights: npt.NDArray[np.float32] = (
            functional.label_keep(self.keep, labels).where(labels >= 0, 0.0).numpy()
        )
        return weights

    def update(self, logits: Tensor, targets: Array) -> None:
        """Move the ratios once, by the outputs for held-out rows (Eq. 5 to 7)."""
        histograms = OutputHistograms(len(self.target_ratio), self.options.num_bins, device=logits.device)
        histograms.add(read(logits, torch.from_numpy(targets), num_classes=len(self.target_ratio)))
        gap = ratios.gaps(self.options, histograms.counts, self.class_counts)
        rate = self.schedule.rate_at(self.num_updates)
        moved = functional.next_ratio(self.target_ratio, gap, rate)
        self.target_ratio = ratios.clip(self.options, moved, self.class_counts)
        self.num_updates += 1


def inner_cuts(targets: Array, *, seed: int) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Kept and held-out rows inside a fit, stratified over all labels; none where rows are too few.

    >>> [len(held) for _, held in inner_cuts(np.tile(np.eye(2, dtype=np.int8), (8, 1)), seed=0)]
    [4, 4, 4, 4]
    """
    if len(targets) < 2 * _FOLDS:
        return []
    number = fold_numbers(torch.from_numpy(targets), _FOLDS, seed)
    used = _FOLDS if len(targets) <= _FEW_ROWS else 1
    return [(np.flatnonzero(number != fold), np.flatnonzero(number == fold)) for fold in range(used)]
