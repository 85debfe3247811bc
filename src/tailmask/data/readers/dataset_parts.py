"""The parts of a data set: the rows of each split, and the record of their source."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tailmask.data.dataset import Inputs
from tailmask.data.digests import digest, file_digest, text_digest
from tailmask.data.encoders.encoder import Encoder
from tailmask.data.options import PLACES, DataOptions
from tailmask.data.readers.table.label_columns import Labels

__all__ = ["Part", "ReadRows", "source_record"]


class ReadRows(Protocol):
    """Samples before encoding. They fit an encoder, which then encodes them."""

    def __len__(self) -> int: ...

    def keys(self, like: Any = None) -> NDArray[Any]:
        """One value per row, the same for rows with the same features, also in the training rows `like`."""
        ...

    def fit(self, index: NDArray[np.int64], options: DataOptions) -> Encoder:
        """The encoder with the statistics of the rows in `index`."""
        ...

    def encode(self, encoder: Any, index: NDArray[np.int64], *, training: bool = False) -> Inputs:
        """The inputs of the rows in `index`."""
        ...

    def notes(self, encoder: Any, index: NDArray[np.int64], labels: Labels) -> list[str]:
        """Notes for the user on how the rows are used; those in `index` are the training rows."""
        ...


@dataclass(frozen=True)
class Part:
    """A file with its rows and labels, and the indices of the rows that a split takes."""

    path: Path
    rows: ReadRows
    labels: Labels
    keys: NDArray[Any]  # the same for rows with the same features
    index: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None  # the same for rows that --group keeps together
    times: NDArray[np.float64] | None = None  # the order of the rows by --time


def source_record(path: Path, parts: dict[str, Part], options: DataOptions) -> dict[str, object]:
    """The record of what was loaded, as plain JSON: names, options that matter, sizes and digests."""
    from tailmask.data.readers.table.table_dataset import TableRows

    train = parts["train"]
    chosen = {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(options)
        if field.name not in (*PLACES, "encoding") and getattr(options, field.name) != field.default
    }
    digests = {path: _digests(part) for path, part in {part.path: part for part in parts.values()}.items()}
    return {
        "name": path.name,  # without its folder: the same file elsewhere is the same data
        "options": chosen,
        **({"encoding": options.encoding} if isinstance(train.rows, TableRows) else {}),
        "classes": len(train.labels.classes),
        "class_names": text_digest(train.labels.classes),  # a second file may give them, in any order
        "splits": {
            name: {
                "file": part.path.name,
                **digests[part.path],
                "samples": len(part.index),
                "rows": digest(part.index),
            }
            for name, part in parts.items()
        },
    }


def _digests(part: Part) -> dict[str, str]:
    """The digest of a file and, if it lists images, that of the images."""
    from tailmask.data.readers.image_list import FileRows
    from tailmask.data.readers.table.table_dataset import TableRows, TextRows

    if isinstance(part.rows, TableRows | TextRows) and not part.path.suffix:  # a frame, not a file
        return {"sha256": part.rows.digest()}
    digests = {"sha256": file_digest(part.path)}
    return digests | ({"images": part.rows.digest()} if isinstance(part.rows, FileRows) else {})
