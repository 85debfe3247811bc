"""Checkpoint files: written whole or not at all, and read without executing anything.

`checkpoint.ckpt` is flushed to the disk and survives a power cut. Lightning runs also write later epochs to
`checkpoint.recent.ckpt` without waiting for the disk. It survives the end of the process, not a power cut.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import torch

from tailmask._util.files import atomic_path
from tailmask._util.messages import UserError

__all__ = [
    "LASTING",
    "RECENT",
    "find_checkpoint",
    "read_checkpoint",
    "remove_checkpoints",
    "write_checkpoint",
]

LASTING, RECENT = "checkpoint.ckpt", "checkpoint.recent.ckpt"


def write_checkpoint(path: Path, checkpoint: dict[str, Any], *, durable: bool) -> None:
    """Write a checkpoint, whole or not at all; with `durable`, wait until it is on the disk."""
    content = io.BytesIO()
    torch.save(checkpoint, content)  # to memory first: on a full disk torch raises a RuntimeError
    with atomic_path(path, durable=durable) as temporary:
        temporary.write_bytes(content.getbuffer())


def find_checkpoint(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Path and content of the checkpoint with the most epochs; None if there is none.

    A damaged checkpoint is skipped if the other one can be read.
    """
    found, damaged = [], None
    for path in (folder / RECENT, folder / LASTING):
        try:
            if path.exists():
                found.append((path, read_checkpoint(path)))
        except UserError as error:
            damaged = error
    if damaged is not None and not found:
        raise damaged
    return max(found, key=lambda each: int(each[1]["epochs_done"]), default=None)


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a complete run."""
    for name in (LASTING, RECENT):
        (folder / name).unlink(missing_ok=True)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The content of a checkpoint."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:  # torch does not check the checksums
                raise ValueError("a checksum is wrong")
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch's unpickler may raise any error for a damaged file
        raise UserError(
            f"{path} cannot be read, so this run cannot be resumed: remove its folder to train again"
        ) from error
    if not isinstance(checkpoint, dict) or not _is_ours(checkpoint):
        raise UserError(f"{path} is not a checkpoint of tailmask: remove the folder to train again")
    return checkpoint


def _is_ours(checkpoint: dict[str, Any]) -> bool:
    done, lines = checkpoint.get("epochs_done"), checkpoint.get("history")
    if not isinstance(done, int) or not isinstance(lines, list):
        return False
    return len(lines) == done and all(isinstance(line, str) for line in lines)
