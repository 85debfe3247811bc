"""What stands around training: silence, signals, the group of processes, full disks and memory."""

from __future__ import annotations

import contextlib
import errno
import logging
import signal
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

from tailmask._util.messages import UserError, is_out_of_memory

__all__ = ["disk_errors", "interrupts", "memory_errors", "process_group", "quiet", "terminations"]


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """Leave the group of processes that is joined within; one that was there before stays."""
    distributed = torch.distributed
    before = distributed.is_available() and distributed.is_initialized()
    try:
        yield
    finally:
        if not before and distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Lightning's advice and banners kept from the user, who has asked tailmask and not Lightning."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric", "lightning")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        for module in ("pytorch_lightning", "lightning_fabric", "torch.distributed", "torch.jit"):
            warnings.filterwarnings("ignore", module=module.replace(".", r"\."))
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@contextlib.contextmanager
def interrupts() -> Iterator[None]:
    """Ctrl-C as `KeyboardInterrupt` again, which Lightning turns into an exit, and SIGTERM likewise."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if main else None
    try:
        yield
    except SystemExit as error:
        raise KeyboardInterrupt from error
    finally:
        if main and before is not None:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def terminations() -> Iterator[None]:
    """SIGTERM as `KeyboardInterrupt`, like Ctrl-C, where this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """A full or read-only disk as a sentence that says how to go on."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO):
            raise
        raise UserError(
            f"{folder} cannot be written to ({error.strerror}): once it can, the same command goes on from "
            "the last finished epoch"
        ) from error


@contextlib.contextmanager
def memory_errors(batch_size: int) -> Iterator[None]:
    """Memory that runs out, a GPU's or the machine's, as a sentence that says what takes less of it."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(
            f"memory ran out in training with batches of {batch_size}: once more is free, as with fewer "
            "--jobs, the same command goes on from the last finished epoch; otherwise try "
            f"--set schedule.batch_size={max(1, batch_size // 2)} with another --out"
        ) from error
