"""What a run tells while it goes on: a protocol, and the Lightning callback that feeds it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import pytorch_lightning as pl

__all__ = ["Progress", "ProgressCallback"]


class Progress(Protocol):
    """Hears of a run's progress; all calls come from the first process."""

    def note(self, text: str) -> None:
        """Something worth knowing, such as the epoch that a run resumes after."""

    def begin(self, *, done: int, total: int) -> None:
        """Training begins, with `done` of `total` epochs behind it."""

    def step(self, *, epoch: int, share: float, loss: float, num_samples: int) -> None:
        """A share of an epoch (counted from 1) is done; several times a second at most."""

    def record(self, record: Mapping[str, Any]) -> None:
        """An epoch is done and on disk; `record` is its line of the history."""

    def end(self) -> None:
        """Training has ended or was interrupted."""


class ProgressCallback(pl.Callback):
    """Tells a `Progress` of the steps, ten times a second at most: reading a loss waits for the device."""

    SECONDS_BETWEEN_STEPS = 0.1

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.last = 0.0
        self.num_samples = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Training begins."""
        self.progress.begin(done=trainer.current_epoch, total=trainer.max_epochs or 0)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """A step is done."""
        self.num_samples += len(batch.targets) * trainer.world_size
        now = time.monotonic()
        if now - self.last < self.SECONDS_BETWEEN_STEPS:
            return
        self.progress.step(
            epoch=trainer.current_epoch + 1,
            share=(batch_idx + 1) / trainer.num_training_batches,
            loss=float(outputs["loss"]),
            num_samples=self.num_samples,
        )
        self.last, self.num_samples = now, 0
