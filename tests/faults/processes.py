"""Commands in processes of their own that can be disturbed, killed and compared."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

__all__ = ["command", "run_process", "start_process", "train_digits"]

# Forked from a server that has imported everything, a process starts in moments.
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    [
        "tailmask.cli.app",
        "tailmask.cli.train",
        "tailmask.data.public.digits",
        "tailmask.training.engine",
        "tailmask.training.with_lightning.lightning_run",
        "sklearn.datasets",
    ]
)


def start_process(target: Callable[..., None], *arguments: object) -> BaseProcess:
    """A process that runs `target`."""
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def run_process(target: Callable[..., None], *arguments: object, seconds: float | None = None) -> int | None:
    """Exit code of a process, which is killed after some seconds unless it has ended."""
    process = start_process(target, *arguments)
    process.join(seconds)
    if process.is_alive():
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
    return process.exitcode


def command(*arguments: str, stderr: Path) -> None:
    """`tailmask …` in this process, its error stream in a file."""
    os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND), sys.stderr.fileno())
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    from tailmask.cli import main

    sys.exit(main(list(arguments)))


def train_digits(folder: Path, epochs: int, stderr: Path) -> None:
    """`tailmask train digits`, on one thread."""
    arguments = ["train", "digits", "--epochs", str(epochs), "--threads", "1", "--out", str(folder)]
    command(*arguments, stderr=stderr)
