"""Processes forked from a server that has imported everything: each starts in moments, alone or as a rank."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
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
    """Run a script in two new interpreters that find each other by the variables that torchrun sets.

    Forked processes sometimes wait for each other forever, so ranks are not forked. Another process may take
    the port in between, so there is a second try.
    """
    logs = [log_folder / f"rank{rank}.log" for rank in range(2)]
    for _ in range(2):
        codes = _try_ranks(script, logs, list(map(str, arguments)))
        if None not in codes:
            break
    assert codes == [0, 0], "\n".join(log.read_text(errors="replace") for log in logs)


def _try_ranks(script: Path, logs: list[Path], arguments: list[str]) -> list[int | None]:
    """Exit codes of the ranks; None for one that was killed after two minutes."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    shared = {"GROUP_RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1"}
    shared |= {"MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test", "OMP_NUM_THREADS": 1}
    ranks = []
    for rank, log in enumerate(logs):
        places = shared | {"RANK": rank, "LOCAL_RANK": rank}
        path = os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": path} | {name: str(v) for name, v in places.items()}
        with log.open("wb") as file:
            command = [sys.executable, str(script), *arguments]
            ranks.append(subprocess.Popen(command, env=environment, stdout=file, stderr=file))
    codes: list[int | None] = []
    for process in ranks:
        try:
            codes.append(process.wait(120))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            codes.append(None)
    return codes
