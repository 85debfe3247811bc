"""One process at a time in a run folder."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tailmask.errors import UserError

__all__ = ["locked"]


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; another process that asks for it meanwhile gets a `UserError`.

    The system drops the lock when the process ends, however it ends; the file `.lock` stays, since removing
    it could let two processes hold a lock each. File systems that know no locks, and Windows, go without.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _take(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, folder: Path) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise UserError(
                f"another process is training in {folder}: wait for it, or choose another folder with --out"
            ) from None
