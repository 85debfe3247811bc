"""Several processes on this machine that train together, started as torchrun would start them."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tailmask._util.messages import UserError

if TYPE_CHECKING:
    from tailmask.data.dataset import Dataset
    from tailmask.runs.config import RunConfig
    from tailmask.training.engine import Execution
    from tailmask.training.progress import Progress

__all__ = ["free_port", "launch"]

INTERRUPTED = 130  # exit code of a rank that was stopped by Ctrl-C
SECONDS_TO_STOP = 10.0

multiprocessing: Any = torch.multiprocessing  # it has no types


def launch(
    config: RunConfig,
    folder: Path,
    *,
    dataset: Dataset | None,
    execution: Execution,
    progress: Progress | None,
) -> None:
    """Train in `execution.devices` new processes, and wait for them.

    Each gets torchrun's environment variables, so processes find each other in the same way, with or without
    torchrun. A `UserError` of one of them is raised here.
    """
    _check_devices(execution.devices)
    # A fork server imports once for all ranks; "spawn" is for systems without one.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["tailmask.training.engine"])
    errors = context.SimpleQueue()
    arguments = (config, folder, dataset, execution, progress, free_port(), errors)
    ranks = multiprocessing.start_processes(
        _work, args=arguments, nprocs=execution.devices, start_method=method, join=False
    )
    try:
        # If one rank ends, the others fail: ranks that know the cause get time to report it.
        while not ranks.join(grace_period=SECONDS_TO_STOP):
            pass
    except KeyboardInterrupt:
        _stop(ranks.processes)
        raise
    except (multiprocessing.ProcessExitedException, multiprocessing.ProcessRaisedException):
        if not errors.empty():
            raise UserError(errors.get()) from None
        if any(process.exitcode == INTERRUPTED for process in ranks.processes):
            raise KeyboardInterrupt from None
        raise


def _work(
    rank: int,
    config: RunConfig,
    folder: Path,
    dataset: Dataset | None,
    execution: Execution,
    progress: Progress | None,
    port: int,
    errors: Any,
) -> None:
    from tailmask.training.engine import train

    number = str(execution.devices)
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        GROUP_RANK="0",
        WORLD_SIZE=number,
        LOCAL_WORLD_SIZE=number,
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        TORCHELASTIC_RUN_ID="tailmask",
    )
    if execution.threads is None:  # the ranks share the cores
        torch.set_num_threads(max(1, torch.get_num_threads() // execution.devices))
    try:
        train(config, folder, dataset=dataset, execution=execution, progress=progress if rank == 0 else None)
    except UserError as error:
        errors.put(str(error))
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _check_devices(asked: int) -> None:
    """Refuse more processes than devices: a mistyped number would overload the machine."""
    gpus = torch.cuda.device_count()
    available = gpus or os.cpu_count() or 1
    if asked > available:
        kind = "GPU" if gpus else "core"
        raise UserError(
            f"--devices asks for {asked} processes, but this machine has only {available} "
            f"{kind}{'s' if available > 1 else ''}: ask for fewer, or start processes with torchrun"
        )


def _stop(processes: Sequence[Any]) -> None:
    """Stop the ranks: Ctrl-C in a terminal reaches them, but a signal to only this process does not."""
    for patience, number in ((1.0, signal.SIGINT), (SECONDS_TO_STOP, signal.SIGKILL)):
        deadline = time.monotonic() + patience
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))
        for process in processes:
            if process.is_alive():
                os.kill(process.pid, number)
    for process in processes:
        process.join()


def free_port() -> int:
    """A port of this machine that no program uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
