"""Partial Label Masking for learners that are not networks: the ratios of the classes, and their updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tailmask import functional
from tailmask.masking import ratios
from tailmask.masking.class_counts import count_classes
from tailmask.masking.criterion_options import InitialRatio, Options
from tailmask.masking.histograms import OutputHistograms
from tailmask.masking.label_batch import read
from tailmask.masking.schedule import Schedule

__all__ = ["Masking", "RatioTrack"]

_DIVERGENCE_RATE = 0.1


@dataclass(frozen=True)
class Masking:
    """The masking of a learner, with the options of `PartialLabelMasking`.

    `updates` is the number of ratio updates in a fit. A rate of None is 0.1 for "divergence". For
    "prevalence" it is 0.5 with 7 to 18 updates, higher with fewer and lower with more. Networks have more
    updates, so their rates are lower.

    >>> Masking().schedule.rate, Masking(adapt="divergence").schedule.rate
    (0.5, 0.1)
    """

    adapt: Literal["divergence", "prevalence"] = "prevalence"
    rate: float | None = None
    initial_ratio: InitialRatio = "class"
    num_bins: int = 10
    ratio_range: tuple[float, float] | None = None
    warmup: int = 0
    updates: int = 8

    def __post_init__(self) -> None:
        if self.updates < 1:
            raise ValueError(f"masking needs at least one update, got {self.updates}")
        _ = self.options(1), self.schedule  # raises an error for invalid options

    def options(self, num_classes: int) -> Options:
        """The options of the ratio updates."""
        return Options.read(
            num_classes,
            adapt=self.adapt,
            num_bins=self.num_bins,
            initial_ratio=self.initial_ratio,
            ratio_range=self.ratio_range,
        )

    @property
    def moves(self) -> bool:
        """True if any update moves a ratio."""
        return self.schedule.rate > 0 and self.warmup < self.updates

    @property
    def schedule(self) -> Schedule:
        """The schedule of λ over the updates."""
        rate = _DIVERGENCE_RATE if self.rate is None and self.adapt == "divergence" else self.rate
        # The default rate of Schedule assumes that half of the epochs are a warm-up.
        epochs = 2 * max(1, self.updates - self.warmup)
        return Schedule.of(self.adapt, rate=rate, warmup=self.warmup, epochs=epochs)


class RatioTrack:
    """The target ratios of all classes during a fit, moved by outputs for held-out rows.

    >>> targets = np.array([[1], [1], [0], [0], [0], [0]])
    >>> track = RatioTrack(Masking(), targets)
    >>> track.update(torch.full((6, 1), -2.0), targets)  # never predicted, so the ratio goes up
    >>> track.keep
    tensor([[0.6065],
            [1.0000]])
    """

    def __init__(self, masking: Masking, targets: npt.NDArray[Any]) -> None:
        self.class_counts = count_classes(targets)  # (2, C)
        self.options = masking.options(targets.shape[1])
        self.schedule = masking.schedule
        self.target_ratio = ratios.initial_ratio(self.options, self.class_counts)  # (C,)
        self.num_updates = 0

    @property
    def keep(self) -> Tensor:
        """The keep probabilities of Eq. 3: (2, C)."""
        return ratios.keep(self.class_counts, self.target_ratio)

    @property
    def prior_shift(self) -> Tensor:
        """log(r / r̄) of each class (C,). It undoes the ratios in outputs that follow them."""
        return ratios.prior_shift(self.keep)

    def label_weights(self, targets: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The weight of each label (N, C): its keep probability, or 0 if it is unknown."""
        labels = torch.from_numpy(targets)
        weights: npt.NDArray[np.float32] = (
            functional.label_keep(self.keep, labels).where(labels >= 0, 0.0).numpy()
        )
        return weights

    def update(self, logits: Tensor, targets: npt.NDArray[Any]) -> None:
        """Move the ratios once, by the outputs for held-out rows (Eq. 5 to 7)."""
        histograms = OutputHistograms(len(self.target_ratio), self.options.num_bins, device=logits.device)
        histograms.add(read(logits, torch.from_numpy(targets), num_classes=len(self.target_ratio)))
        gap = ratios.gaps(self.options, histograms.counts, self.class_counts)
        rate = self.schedule.rate_at(self.num_updates)
        moved = functional.next_ratio(self.target_ratio, gap, rate)
        self.target_ratio = ratios.clip(self.options, moved, self.class_counts)
        self.num_updates += 1
