"""Arrays and frames from Python, written to files that commands and worker processes can read."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tailmask._util.files import write_bytes
from tailmask._util.messages import UserError
from tailmask.data.readers.table.program_frames import as_polars
from tailmask.data.rows import is_sparse

__all__ = ["is_frame", "joined_frame", "keep_arrays", "keep_frame"]


def is_frame(data: Any) -> bool:
    """True for polars and pandas frames.

    >>> is_frame(np.eye(2)), is_frame("digits")
    (False, False)
    """
    return hasattr(data, "columns") and not hasattr(data, "toarray")


def joined_frame(features: Any, labels: Any) -> tuple[Any, list[str]]:
    """One polars frame from a frame of features and a frame of labels, and the names of the labels.

    >>> import polars
    >>> joined_frame(polars.DataFrame({"x": [1]}), polars.DataFrame({"tag": [0]}))[1]
    ['tag']
    """
    left, right = as_polars(features), as_polars(labels)
    if left.height != right.height:
        raise UserError(
            f"features and labels must have the same number of rows, got {left.height} and {right.height}"
        )
    shared = sorted(set(left.columns) & set(right.columns))
    if shared:
        raise UserError(f"the column {shared[0]!r} is in the features and in the labels: rename one")
    return left.hstack(right), list(right.columns)


def keep_frame(frame: Any, folder: Path) -> Path:
    """Write a frame into a study's folder, unless it is already there, and return its path."""
    buffer = io.BytesIO()
    as_polars(frame).write_parquet(buffer)
    return _keep(folder / ".frame.parquet", buffer.getvalue())


def keep_arrays(features: Any, targets: Any, folder: Path, *, classes: Sequence[str] | None = None) -> Path:
    """Write features (N, F) and targets (N, C) into a study's folder, unless they are already there.

    >>> import tempfile
    >>> path = keep_arrays(np.eye(2), np.eye(2), Path(tempfile.mkdtemp()))
    >>> sorted(np.load(path))
    ['X', 'Y']
    """
    arrays = {**_parts("X", features), **_parts("Y", targets)}
    if classes is not None:
        arrays["classes"] = np.array([str(name) for name in classes])
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return _keep(folder / ".arrays.npz", buffer.getvalue())


def _parts(name: str, values: Any) -> dict[str, Any]:
    if not is_sparse(values):
        return {name: np.asarray(values)}
    matrix = values.tocsr()
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    return {f"{name}_{part}": value for part, value in parts.items()} | {
        f"{name}_shape": np.array(matrix.shape)
    }


def _keep(path: Path, content: bytes) -> Path:
    if path.is_file() and path.read_bytes() != content:
        raise UserError(f"{path.parent} holds results of other data: choose another folder with `out`")
    if not path.is_file():
        write_bytes(path, content)
    return path
