"""Checkpoints: after every epoch, whole or not there, and read back without executing anything.

`checkpoint.ckpt` is on the disk, whatever happens to the machine. The epochs after it are kept in
`checkpoint.recent.ckpt`, which is not waited for: the process may be killed, but a power cut can spoil it.
"""

from __future__ import annotations

import io
import math
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint
from pytorch_lightning.plugins.io import CheckpointIO

from tailmask.errors import UserError
from tailmask.files import atomic_path
from tailmask.training.history import append_record, to_line
from tailmask.training.module import TrainingModule

__all__ = ["AtomicCheckpointIO", "EpochRecorder", "find_checkpoint", "read_checkpoint", "remove_checkpoints"]

_LASTING, _RECENT = "checkpoint.ckpt", "checkpoint.recent.ckpt"


class AtomicCheckpointIO(CheckpointIO):
    """Writes Lightning's checkpoints atomically and loads them with `weights_only=True`."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Write a checkpoint, whole or not at all; `storage_options` says whether to wait for the disk."""
        content = io.BytesIO()
        torch.save(checkpoint, content)  # not to the disk: where that is full, torch raises a RuntimeError
        with atomic_path(Path(path), durable=bool(storage_options)) as temporary:
            temporary.write_bytes(content.getbuffer())

    def load_checkpoint(self, path: str | Path, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Read a checkpoint; nothing in it is executed."""
        return read_checkpoint(Path(path))

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a checkpoint."""
        Path(path).unlink(missing_ok=True)


class EpochRecorder(Checkpoint):
    """At each epoch's end: a line of history, then the checkpoint that makes the epoch count as done.

    The checkpoint has all lines as well, so that the history can be put right by it. Lightning calls a
    `Checkpoint` after all other callbacks and the module. A process that is killed loses nothing that it has
    written; against power cuts the files are also forced to the disk, but not so often that short epochs
    would wait for it all the time.
    """

    SECONDS_BETWEEN_SYNCS = 10.0

    def __init__(
        self,
        folder: Path,
        on_record: Callable[[dict[str, Any]], None] | None = None,
        *,
        lines: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.on_record = on_record
        self.lines = list(lines)  # of the epochs that are done
        self.last_sync = -math.inf

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the epoch."""
        assert isinstance(pl_module, TrainingModule)  # noqa: S101
        record = pl_module.record
        self.lines.append(to_line(record))
        durable = time.monotonic() - self.last_sync >= self.SECONDS_BETWEEN_SYNCS
        if trainer.is_global_zero:
            append_record(self.folder / "history.jsonl", record, durable=durable)
        for logger in trainer.loggers:
            logger.log_metrics(_scalars(record), step=record["epoch"])
        trainer.save_checkpoint(self.folder / (_LASTING if durable else _RECENT), storage_options=durable)
        if durable:
            self.last_sync = time.monotonic()
        if durable and trainer.is_global_zero:
            (self.folder / _RECENT).unlink(missing_ok=True)
        if self.on_record is not None:
            self.on_record(record)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add the history."""
        checkpoint["history"] = self.lines


def find_checkpoint(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Path and content of the checkpoint with most epochs, leaving out one that is damaged if it can."""
    found, damaged = [], None
    for path in (folder / _RECENT, folder / _LASTING):
        try:
            if path.exists():
                found.append((path, read_checkpoint(path)))
        except UserError as error:
            damaged = error
    if damaged is not None and not found:
        raise damaged
    return max(found, key=lambda each: int(each[1]["epochs_done"]), default=None)


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a run that is complete."""
    for name in (_LASTING, _RECENT):
        (folder / name).unlink(missing_ok=True)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint as Lightning wrote it."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:  # torch does not look at the checksums
                raise ValueError("a checksum is wrong")
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever torch's unpickler raises on nonsense
        raise UserError(f"{path} cannot be read, so this run cannot be resumed: remove its folder") from error
    if not isinstance(checkpoint, dict) or not _is_ours(checkpoint):
        raise UserError(f"{path} is not a checkpoint of tailmask: remove the folder to train anew")
    return checkpoint


def _is_ours(checkpoint: dict[str, Any]) -> bool:
    done, lines = checkpoint.get("epochs_done"), checkpoint.get("history")
    if not isinstance(done, int) or lines is None:  # which the first versions left to history.jsonl
        return isinstance(done, int)
    return isinstance(lines, list) and len(lines) == done and all(isinstance(line, str) for line in lines)


def _scalars(record: dict[str, Any]) -> dict[str, float]:
    values = {"loss": record["loss"], "lr": record["lr"]}
    values |= {f"validation/{name}": value for name, value in record.get("validation", {}).items()}
    values |= {f"ratio/{index}": value for index, value in enumerate(record.get("ratio", ())) if index < 100}
    return {name: value for name, value in values.items() if value is not None}
