"""The idx format of MNIST: a header with the sizes, then one byte per pixel or label."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import UserError

__all__ = ["read_idx"]

_UNSIGNED_BYTE = 0x08
_DEFLATE_LIMIT = 1032  # no deflate stream grows by more than this factor


def read_idx(path: Path, *, num_dimensions: int) -> NDArray[np.uint8]:
    """The array in an idx file of unsigned bytes, gzipped or plain.

    The size in the header is checked against the size of the file before any memory is allocated.
    """
    size = path.stat().st_size
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as packed:
                return _read(packed, path, num_dimensions, available=size * _DEFLATE_LIMIT)
        with path.open("rb") as file:
            return _read(file, path, num_dimensions, available=size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is cut off or corrupt ({error}): download it again") from error


def _read(
    file: IO[bytes] | gzip.GzipFile, path: Path, num_dimensions: int, *, available: int
) -> NDArray[np.uint8]:
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] != _UNSIGNED_BYTE or start[3] != num_dimensions:
        raise UserError(
            f"{path} is not an idx file of unsigned bytes with {num_dimensions} dimensions: download it again"
        )
    sizes = file.read(4 * num_dimensions)
    if len(sizes) < 4 * num_dimensions:
        raise UserError(f"{path} is cut off within its header: download it again")
    shape = struct.unpack(f">{num_dimensions}I", sizes)
    claimed = math.prod(shape)
    if claimed > available:
        raise UserError(
            f"{path} claims {claimed} bytes of data, more than the file can hold: download it again"
        )
    content = file.read(claimed + 1)
    if len(content) != claimed:
        found = "more" if len(content) > claimed else f"{len(content)}"
        raise UserError(f"{path} claims {claimed} bytes of data but holds {found}: download it again")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
