"""Processes forked from a server that has imported everything: each starts in moments, alone or as a rank."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import socket
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path

__all__ = ["ensure_server", "run_process", "run_ranks", "start_process"]

_PRELOADED = [
    "tailmask.cli.app",
    "tailmask.cli.train",
    "tailmask.data.public.digits",
    "tailmask.training.engine",
    "tailmask.training.with_lightning.lightning_run",
    "sklearn.datasets",
    "torchmetrics",
    "transformers.trainer",
]
_context = multiprocessing.get_context("forkserver")


def ensure_server() -> None:
    """Start the server, unless there is one: its first user decides what it has imported."""
    _context.set_forkserver_preload(_PRELOADED)
    forkserver.ensure_running()


def start_process(target: Callable[..., None], *arguments: object) -> BaseProcess:
    """A process that runs `target`."""
    ensure_server()
    process = _context.Process(target=target, args=arguments)
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


def run_ranks(script: Path, log_folder: Path, *arguments: object) -> None:
    """Run a script in two processes that find each other by the variables that torchrun sets."""
    logs = [log_folder / f"rank{rank}.log" for rank in range(2)]
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    ranks = [
        start_process(_run_rank, rank, port, script, log, *map(str, arguments))
        for rank, log in enumerate(logs)
    ]
    for rank in ranks:
        rank.join(240)
        rank.kill()  # of one that waits for the other in vain
        rank.join()
    codes = [rank.exitcode for rank in ranks]
    assert codes == [0, 0], "\n".join(log.read_text(errors="replace") for log in logs)


def _run_rank(rank: int, port: int, script: Path, log: Path, *arguments: str) -> None:
    import torch

    torch.set_num_threads(1)
    places = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test"}
    os.environ.update({name: str(value) for name, value in (places | meeting).items()})
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(descriptor, stream.fileno())
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    runpy.run_path(str(script), run_name="__main__")
