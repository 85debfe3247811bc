"""Arrays in an .npz file, written whole and read without trusting the file."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailmask._util.files import atomic_path
from tailmask._util.messages import UserError
from tailmask.data.readers.npz import read_array_header

__all__ = ["read_arrays", "write_arrays"]


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to an uncompressed .npz file, whole or not at all."""
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980: the same arrays give the same bytes
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file that `write_arrays` wrote.

    Nothing is unpickled, and no array may be larger than the file.
    """
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            return {
                entry.filename.removesuffix(".npy"): _read(archive, entry, limit=size)
                for entry in archive.infolist()
            }
    except (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, *, limit: int) -> NDArray[Any]:
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > limit:
        raise ValueError(f"{entry.filename} is compressed, but tailmask never compresses its files")
    with archive.open(entry) as file:
        shape, fortran_order, dtype = read_array_header(file, f"the header of {entry.filename}")
        content = bytearray(file.read())
    if dtype.hasobject or fortran_order or math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"the content of {entry.filename} does not fit its header")
    return np.frombuffer(content, dtype).reshape(shape)
