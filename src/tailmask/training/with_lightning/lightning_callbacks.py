"""Lightning's callbacks of a run: the recorder of epochs, checkpoint files, and progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Checkpoint
from pytorch_lightning.plugins.io import CheckpointIO

from tailmask.runs.history import append_record, to_line
from tailmask.training.checkpoint_file import LASTING, RECENT, read_checkpoint, write_checkpoint
from tailmask.training.progress import Progress, StepReports
from tailmask.training.with_lightning.lightning_module import TrainingModule

__all__ = ["AtomicCheckpointIO", "EpochRecorder", "ProgressCallback"]


class AtomicCheckpointIO(CheckpointIO):
    """Writes Lightning's checkpoints atomically and loads them with `weights_only=True`."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Write a checkpoint; `storage_options` says whether to wait for the disk."""
        write_checkpoint(Path(path), checkpoint, durable=bool(storage_options))

    def load_checkpoint(self, path: str | Path, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Read a checkpoint; nothing in it is executed."""
        return read_checkpoint(Path(path))

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a checkpoint."""
        Path(path).unlink(missing_ok=True)


class EpochRecorder(Checkpoint):
    """Writes a line of history after each epoch, then the checkpoint that makes the epoch count as finished.

    The checkpoint also holds all lines: a resumed run restores its history from them. Lightning calls a
    `Checkpoint` after all other callbacks and the module. A killed process loses nothing that it has written.
    To survive power cuts, the files are also flushed to the disk, but not after every short epoch.
    """

    SECONDS_BETWEEN_SYNCS = 10.0

    def __init__(
        self,
        folder: Path,
        on_record: Callable[[dict[str, Any]], None],
        *,
        lines: Sequence[str],
    ) -> None:
        self.folder = folder
        self.on_record = on_record
        self.lines = list(lines)  # of the finished epochs
        self.last_sync = -math.inf

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the epoch."""
        assert isinstance(pl_module, TrainingModule)
        record = pl_module.record
        self.lines.append(to_line(record))
        durable = time.monotonic() - self.last_sync >= self.SECONDS_BETWEEN_SYNCS
        if trainer.is_global_zero:
            append_record(self.folder / "history.jsonl", record, durable=durable)
        trainer.save_checkpoint(self.folder / (LASTING if durable else RECENT), storage_options=durable)
        if durable:
            self.last_sync = time.monotonic()
        if durable and trainer.is_global_zero:
            (self.folder / RECENT).unlink(missing_ok=True)
        self.on_record(record)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add the history."""
        checkpoint["history"] = self.lines


class ProgressCallback(pl.Callback):
    """Reports the steps to a `Progress`."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.reports = StepReports(progress)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Training begins."""
        self.progress.begin(done=trainer.current_epoch, total=trainer.max_epochs or 0)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """A step is done."""
        self.reports.add(
            outputs["loss"],
            epoch=trainer.current_epoch + 1,
            share=(batch_idx + 1) / trainer.num_training_batches,
            num_samples=len(batch.targets) * trainer.world_size,
        )
