"""How many cores and threads this process may use, and work on several threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["in_threads", "num_cores", "num_threads"]

Job = TypeVar("Job")
Result = TypeVar("Result")


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def num_threads(cores: int | None = None) -> int:
    """Threads to use on so many cores (all of them by default), fewer if OMP_NUM_THREADS says so.

    Small tensors are many times slower on two threads than on one while other programs use the cores,
    because each operation waits for both. So the variable that users set for this case is obeyed everywhere.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    most = max(1, num_cores() if cores is None else cores)
    return min(most, max(1, int(asked))) if asked.isdecimal() else most


def in_threads(
    work: Callable[[Job], Result], jobs: Iterable[Job], threads: int | None = None
) -> list[Result]:
    """The results of `work` for each job, in their order; by default on `num_threads` threads.

    >>> in_threads(abs, [-1, 2])
    [1, 2]
    """
    with ThreadPoolExecutor(threads or num_threads()) as pool:
        return list(pool.map(work, jobs))
