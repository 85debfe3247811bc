"""idx files: what is read, and what is refused before memory is taken."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from tailmask._util.messages import UserError
from tailmask.data.readers.idx import read_idx

VALUES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def idx_bytes(values: np.ndarray, *, shape: tuple[int, ...] | None = None, kind: int = 8) -> bytes:
    shape = shape or values.shape
    return struct.pack(f">4B{len(shape)}I", 0, 0, kind, len(shape), *shape) + values.tobytes()


@pytest.mark.parametrize("name", ["a.gz", "a"])
def test_reads_gzipped_and_plain(tmp_path: Path, name: str) -> None:
    content = idx_bytes(VALUES)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert (read_idx(tmp_path / name, num_dimensions=3) == VALUES).all()


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (idx_bytes(VALUES)[:-1], "holds 23"),
        (idx_bytes(VALUES) + b"x", "holds more"),
        (idx_bytes(VALUES)[:9], "cut off within its header"),
        (b"", "not an idx file"),
        (b"PK\x03\x04aaaaaaaaaaaaaaaa", "not an idx file"),
        (idx_bytes(VALUES, kind=13), "not an idx file of unsigned bytes"),
        (idx_bytes(VALUES[0]), "with 3 dimensions"),
        (idx_bytes(VALUES, shape=(2**32 - 1, 2**32 - 1, 2**32 - 1)), "more than the file can hold"),
        (idx_bytes(VALUES, shape=(1000, 1000, 1_000_000)), "more than the file can hold"),
    ],
)
def test_bad_files_get_one_sentence(tmp_path: Path, content: bytes, sentence: str, packed: bool) -> None:
    path = tmp_path / ("a.gz" if packed else "a")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(UserError, match=sentence) as error:
        read_idx(path, num_dimensions=3)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_broken_compression(tmp_path: Path) -> None:
    whole = gzip.compress(idx_bytes(np.random.default_rng(0).integers(256, size=(5, 9, 9), dtype=np.uint8)))
    path = tmp_path / "a.gz"
    for broken in (whole[:-12], whole[:40] + b"\0\xff" * 20 + whole[80:], b"no gzip at all"):
        path.write_bytes(broken)
        with pytest.raises(UserError, match=r"cut off or corrupt|claims"):
            read_idx(path, num_dimensions=3)
