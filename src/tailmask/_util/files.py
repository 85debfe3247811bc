"""Atomic file writes: each file is written under a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["atomic_path", "shortened", "slug", "write_bytes", "write_json", "write_text"]


@contextlib.contextmanager
def atomic_path(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A temporary path beside `path` to write to; renamed to `path` if the block ends without an error.

    With `durable` the file survives a power cut. Without it the file survives a crash of the process, and
    nothing waits for the disk.

    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "a.txt") as temporary:
    ...     _ = temporary.write_text("whole")
    >>> (folder / "a.txt").read_text()
    'whole'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if durable:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())  # mkstemp's 0600 would hide results from colleagues
        temporary.replace(path)
        if durable:
            _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes to `path`, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write text to `path`, whole or not at all."""
    write_bytes(path, content.encode())


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON to `path`, whole or not at all; raise a ValueError for NaN and infinity."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every file system can sync a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def slug(text: str) -> str:
    """The text as a file name that is valid on any system.

    >>> slug("plm:rate=0.05,initial_ratio=mean+focal")
    'plm_rate=0.05_initial_ratio=mean+focal'
    """
    return re.sub(r"[^\w.+=-]+", "_", text)


def shortened(name: str, *, limit: int = 200) -> str:
    """A file name of at most `limit` bytes; the end of a longer name is replaced by its digest.

    >>> shortened("runs"), shortened("labels=" + "tag_" * 50, limit=24)
    ('runs', 'labels=tag_tag__fc4ee293')
    """
    encoded = name.encode()
    if len(encoded) <= limit:
        return name
    mark = f"_{hashlib.sha256(encoded).hexdigest()[:8]}"
    return encoded[: limit - len(mark)].decode(errors="ignore") + mark
