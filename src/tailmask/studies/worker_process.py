"""The study's side of one worker process: it sends tasks, receives events, and ends the process."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any, TypeAlias

__all__ = ["Events", "Worker", "num_gpus"]

COMMAND = (sys.executable, "-P", "-m", "tailmask.studies.worker")

Events: TypeAlias = "queue.Queue[tuple[Worker, dict[str, Any] | None]]"


class Worker:
    """A worker process. It puts its messages into `events`, and None at its end.

    `task` is the number of its current task; None if it is idle.
    """

    def __init__(self, number: int, events: Events, *, threads: int, log: Path) -> None:
        self.number = number
        self.log = log
        self.task: int | None = None
        with log.open("ab") as errors:
            self.process = subprocess.Popen(  # noqa: S603 (our own command)
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                env=_environment(number, threads),
                start_new_session=True,  # only the study gets Ctrl-C from the terminal
            )
        threading.Thread(target=self._listen, args=(events,), daemon=True).start()

    def give(self, number: int, task: dict[str, Any]) -> None:
        """Send a task to the process."""
        self.task = number
        with contextlib.suppress(BrokenPipeError):  # an event reports that the process has ended
            print(json.dumps(task), file=_pipe(self.process.stdin), flush=True)

    def stop(self) -> None:
        """Ask the process to stop; an idle one is killed."""
        if self.task is None:
            self.process.kill()
        elif self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def end(self, deadline: float) -> None:
        """Wait for the process until the deadline, then kill it."""
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def epitaph(self) -> str:
        """A phrase that says how the process ended."""
        status = self.process.wait()
        if status == -9:
            return "its process was killed, probably because memory ran out, so try fewer --jobs"
        cause = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        return f"its process ended {cause}, see {self.log}"

    def _listen(self, events: Events) -> None:
        for line in _pipe(self.process.stdout):
            events.put((self, json.loads(line)))
        self.process.wait()
        events.put((self, None))


def num_gpus() -> int:
    """The number of visible NVIDIA GPUs, from the driver's files: importing torch would take seconds."""
    return len(_gpus())


def _gpus() -> list[str]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name not in ("", "-1")]
    return [str(number) for number, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]


def _environment(number: int, threads: int) -> dict[str, str]:
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        # The worker must find the user's own network modules in the same places as this process.
        "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
    }
    if gpus := _gpus():
        environment["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
    return environment


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
