"""Commands in processes of their own that can be disturbed, killed and compared."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["command", "train_digits"]


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
