"""One worker process of a study, seen from the study: tasks to it, events from it, and its end."""

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
    """A worker process; what it says is put into `events`, as is None when it has ended.

    `task` is the number of the task that it is at, None where it is idle.
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
                start_new_session=True,  # the terminal's Ctrl-C is for the study, which passes it on
            )
        threading.Thread(target=self._listen, args=(events,), daemon=True).start()

    def give(self, number: int, task: dict[str, Any]) -> None:
        """Hand a task over."""
        self.task = number
        with contextlib.suppress(BrokenPipeError):  # that it has ended is heard as an event
            print(json.dumps(task), file=_pipe(self.process.stdin), flush=True)

    def stop(self) -> None:
        """Ask the process to stop; an idle one is ended at once."""
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
        """How the process has ended."""
        status = self.process.wait()
        if status == -9:
            return "its process was killed, mostly for want of memory, so try fewer --jobs"
        cause = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        return f"its process ended {cause}, see {self.log}"

    def _listen(self, events: Events) -> None:
        for line in _pipe(self.process.stdout):
            events.put((self, json.loads(line)))
        self.process.wait()
        events.put((self, None))


def num_gpus() -> int:
    """NVIDIA GPUs that are to be used; asked of the driver's files, since importing torch takes seconds."""
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
        # A network of the user's own must be found wherever this process finds it.
        "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
    }
    if gpus := _gpus():
        environment["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
    return environment


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
