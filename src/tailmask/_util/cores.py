"""How many cores and threads this process may use."""

import os

__all__ = ["num_cores", "num_threads"]


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
