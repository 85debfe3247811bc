"""Context managers for training: logging, signals, the process group, full disks, out-of-memory errors."""

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
    """Destroy the process group on leaving, if it was created inside."""
    distributed = torch.distributed
    before = distributed.is_available() and distributed.is_initialized()
    try:
        yield
    finally:
        if not before and distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide Lightning's advice and banners from the user."""
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
    """Turn Lightning's exit after Ctrl-C or SIGTERM back into a `KeyboardInterrupt`."""
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
    """Turn SIGTERM into a `KeyboardInterrupt`, like Ctrl-C; does nothing outside the main thread."""
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
    """Turn the error of a full or read-only disk into a `UserError` that says how to resume."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO):
            raise
        raise UserError(
            f"{folder} cannot be written to ({error.strerror}): fix this, then the same command resumes "
            "after the last finished epoch"
        ) from error


@contextlib.contextmanager
def memory_errors(batch_size: int) -> Iterator[None]:
    """Turn an out-of-memory error, on GPU or CPU, into a `UserError` that says how to need less memory."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(
            f"memory ran out in training with batches of {batch_size}: free memory, for example with fewer "
            "--jobs, then the same command resumes after the last finished epoch; or try "
            f"--set schedule.batch_size={max(1, batch_size // 2)} with another --out"
        ) from error
