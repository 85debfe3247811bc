"""Arrays in .npz files from unknown sources: nothing is unpickled, and every header is checked.

An array's header must agree with its size in the archive. That size must be possible for the number of
compressed bytes, and must fit into the machine's memory.
"""

from __future__ import annotations

import math
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import UserError, listing, require

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["AS_IN_TRAINING", "Npz", "read_array_header"]

# The advice if the inputs of a new file have another name.
AS_IN_TRAINING = "save the inputs under that name, as in training"

_BROKEN = (ValueError, OSError, EOFError, KeyError, RuntimeError, OverflowError, MemoryError)
_BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError)
_DEFLATE_LIMIT = 1032  # no deflate stream grows by more than this factor
_CSR_PARTS = ("data", "indices", "indptr", "shape")

MAX_COLUMNS = 10**7  # a CSR matrix can claim any number of columns, and each costs memory later


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool


class Npz:
    """An .npz file: arrays by name, whole or row by row, and CSR matrices as `X_data`, `X_indices`, …"""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._sentence("is not an .npz file"), zipfile.ZipFile(path) as archive:
            self.names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def is_csr(self, name: str) -> bool:
        """True if a CSR matrix is stored under this name, in its four parts."""
        return all(f"{name}_{part}" in self for part in _CSR_PARTS)

    def require(self, name: str, hint: str) -> None:
        """Raise an error if there is no array `name`; the error lists the arrays and ends with `hint`."""
        if name not in self and not self.is_csr(name):
            raise UserError(f"{self.path} has no array {name!r}, only {listing(self.names)}: {hint}")

    def array(self, name: str) -> NDArray[Any]:
        """A whole array."""
        with self._open(name) as (file, header):
            content = _read(file, header.shape, header.dtype)
            if header.dtype.kind == "U":
                _check_text(content, header.dtype)
            values = np.frombuffer(content, dtype=header.dtype)
            return values.reshape(header.shape, order="F" if header.fortran_order else "C")

    def csr(self, name: str) -> csr_array:
        """A whole CSR matrix (N, F)."""
        data, indices, indptr = (self.array(f"{name}_{part}") for part in ("data", "indices", "indptr"))
        shape = self._csr_shape(name)
        with self._sentence(f"has no valid CSR matrix {name!r}"):
            matrix = require("scipy.sparse", extra="cli").csr_array((data, indices, indptr), shape=shape)
            matrix.check_format(full_check=True)
            matrix.sum_duplicates()
            return matrix

    def rows(self, name: str, batch_size: int) -> Iterator[NDArray[Any]]:
        """An array, `batch_size` rows at a time; a column-major one is first read as a whole."""
        with self._open(name) as (file, header):
            if not header.shape:
                raise UserError(f"{self.path}: {name!r} must hold rows, got a single value")
            whole = self.array(name) if header.fortran_order else None
            for start in range(0, header.shape[0], batch_size):
                if whole is not None:
                    yield whole[start : start + batch_size]
                    continue
                shape = (min(batch_size, header.shape[0] - start), *header.shape[1:])
                yield np.frombuffer(_read(file, shape, header.dtype), dtype=header.dtype).reshape(shape)

    def csr_rows(self, name: str, batch_size: int) -> Iterator[csr_array]:
        """A CSR matrix, `batch_size` rows at a time."""
        sparse = require("scipy.sparse", extra="cli")
        number, width = self._csr_shape(name)
        indptr = self.array(f"{name}_indptr").astype(np.int64)
        with (
            self._open(f"{name}_data") as (values, form),
            self._open(f"{name}_indices") as (places, place_form),
        ):
            entries = min(math.prod(form.shape), math.prod(place_form.shape))
            if len(indptr) != number + 1 or indptr[0] or (np.diff(indptr) < 0).any() or indptr[-1] != entries:
                raise UserError(
                    f"{self.path} has no valid CSR matrix {name!r}: its parts do not fit together"
                )
            for start in range(0, number, batch_size):
                pointers = indptr[start : start + batch_size + 1]
                shape = (int(pointers[-1] - pointers[0]),)
                data = np.frombuffer(_read(values, shape, form.dtype), dtype=form.dtype)
                indices = np.frombuffer(_read(places, shape, place_form.dtype), dtype=place_form.dtype)
                with self._sentence(f"has no valid CSR matrix {name!r}"):
                    parts = (data, indices, pointers - pointers[0])
                    piece = sparse.csr_array(parts, shape=(len(pointers) - 1, width))
                    piece.check_format(full_check=True)
                yield piece

    def _csr_shape(self, name: str) -> tuple[int, int]:
        shape = self.array(f"{name}_shape")
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
            raise UserError(f"{self.path}: {name}_shape must hold the two sizes of a matrix")
        if shape[1] > MAX_COLUMNS:
            raise UserError(f"{self.path}: {name!r} claims {shape[1]} columns, more than {MAX_COLUMNS}")
        return int(shape[0]), int(shape[1])

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[IO[bytes], _Header]]:
        with self._sentence(f"cannot be read at {name!r}"), zipfile.ZipFile(self.path) as archive:
            info = archive.getinfo(f"{name}.npy")
            with archive.open(info) as file:
                header = self._read_header(file, info, name)
                yield file, header

    def _read_header(self, file: IO[bytes], info: zipfile.ZipInfo, name: str) -> _Header:
        shape, fortran_order, dtype = read_array_header(file, "its header")
        where = f"{self.path}: the array {name!r}"
        if dtype.hasobject:
            raise UserError(
                f"{where} holds Python objects, which could run code: save it as plain numbers or text"
            )
        if dtype.kind not in "biufUS" or any(size < 0 for size in shape):
            raise UserError(f"{where} must hold numbers or text, got the type {dtype}")
        claimed, stored = math.prod(shape) * dtype.itemsize, info.file_size - file.tell()
        if claimed != stored or info.file_size > info.compress_size * _DEFLATE_LIMIT + 1024:
            raise UserError(
                f"{where} claims {claimed} bytes, which the file does not hold: it is cut off or corrupt"
            )
        memory = _physical_memory()
        if claimed > memory:
            raise UserError(
                f"{where} needs {claimed / 2**30:.1f} GB, this machine has {memory / 2**30:.1f} GB: use a "
                "smaller file or another machine"
            )
        return _Header(shape, dtype, fortran_order)

    @contextmanager
    def _sentence(self, problem: str) -> Iterator[None]:
        try:
            yield
        except UserError:
            raise
        except (*_BROKEN, *_BROKEN_ARCHIVE) as error:
            reason = " ".join(str(error).split())[:120]
            raise UserError(f"{self.path} {problem} ({reason or type(error).__name__})") from error


def read_array_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, column-major order and type of the .npy array that begins at the file's position.

    A header that NumPy cannot read raises a ValueError that begins with `name`.
    """
    try:
        first = np.lib.format.read_magic(file) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = read(file)
    except Exception as error:
        # Python's tokenizer, its literals and NumPy's types raise many kinds of errors for such headers.
        raise ValueError(f"{name} is not valid: {error}") from error
    return shape, fortran_order, dtype


def _check_text(content: bytearray, dtype: np.dtype[Any]) -> None:
    """Raise a ValueError for invalid characters: NumPy accepts any four bytes, but Python fails on them."""
    characters = np.frombuffer(content, dtype=np.dtype(np.uint32).newbyteorder(dtype.byteorder))
    if len(characters) and characters.max() > sys.maxunicode:
        raise ValueError("its text has invalid characters")


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system knows it
        return sys.maxsize


def _read(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytearray:
    content = bytearray(math.prod(shape) * dtype.itemsize)
    done = 0
    while done < len(content):
        piece = file.read(min(2**24, len(content) - done))
        if not piece:
            raise EOFError("it is cut off")
        content[done : done + len(piece)] = piece
        done += len(piece)
    return content
