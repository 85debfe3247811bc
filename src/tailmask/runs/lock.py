"""One process at a time in a run folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from tailmask._util.messages import UserError

__all__ = ["locked"]


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; a second process that asks for it gets a `UserError`.

    The system releases the lock when the process ends, even if it is killed; the file `.lock` stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(folder / ".lock", timeout=0).acquire()
    except Timeout:
        raise UserError(
            f"another process is training in {folder}: wait for it, or choose another folder with --out"
        ) from None
    with held:
        yield
