"""Tables of texts for a pretrained model: one text per row, and no other column."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import UserError, listing, require
from tailmask.data.copied_rows import frame_keys
from tailmask.data.options import DataOptions
from tailmask.data.pretrained.backbone_format import TextEncoder, Texts, joined_texts
from tailmask.data.readers.table.column_types import as_text
from tailmask.data.readers.table.frames import matching_columns
from tailmask.data.readers.table.label_columns import Labels

if TYPE_CHECKING:
    import polars as pl

__all__ = ["TextRows", "select_texts"]


@dataclass(frozen=True)
class TextRows:
    """The text columns of a table; the text of a row has one line per column."""

    frame: pl.DataFrame
    columns: tuple[str, ...]

    def __len__(self) -> int:
        return self.frame.height

    def keys(self, like: object = None) -> NDArray[np.uint64]:
        """One value per row, the same for rows with the same texts."""
        return frame_keys(self.frame, list(self.columns))

    def fit(self, index: NDArray[np.int64], options: DataOptions) -> TextEncoder:
        """The encoder, with the names of the text columns."""
        return TextEncoder(
            self.columns,
            header=not options.no_header,
            analyzer=options.text_analyzer,
            terms=options.text_terms,
        )

    def encode(self, encoder: TextEncoder, index: NDArray[np.int64], *, training: bool = False) -> Texts:
        """The texts of the rows in `index`."""
        return Texts(tuple(joined_texts(self.frame[index], encoder.columns)))

    def notes(self, encoder: TextEncoder, index: NDArray[np.int64], labels: Labels) -> list[str]:
        """No notes."""
        return []

    def passed_over(self, columns: list[str]) -> list[str]:
        """A note on the columns that are not used."""
        others = [name for name in columns if name not in self.columns]
        if not others:
            return []
        return [
            f"only the texts in {listing(self.columns)} are used, not the other columns: {listing(others)}"
        ]

    @property
    def types(self) -> dict[str, Any]:
        """The types of the columns; other files must have them too."""
        return dict.fromkeys(self.columns, require("polars", extra="tables").String)

    def digest(self) -> str:
        """SHA-256 of the table."""
        return hashlib.sha256(self.frame.write_ndjson().encode()).hexdigest()


def select_texts(
    frame: pl.DataFrame,
    others: list[str],
    path: Path,
    options: DataOptions,
    *,
    columns: tuple[str, ...] | None,
) -> TextRows:
    """The texts of a table: `columns`, else those that `--text` names, else the only column of words."""
    if columns is None:
        columns = tuple(matching_columns(options.text, others, path)) or _only_text(frame, others, path)
    absent = [name for name in columns if name not in frame.columns]
    if absent:
        raise UserError(f"{path} lacks the columns {listing(absent)}, which the training file has: add them")
    return TextRows(frame.with_columns(as_text(frame[name], path) for name in columns), columns)


def _only_text(frame: pl.DataFrame, others: list[str], path: Path) -> tuple[str, ...]:
    polars = require("polars", extra="tables")
    found = [name for name in others if frame.schema[name] == polars.String]
    if len(found) == 1:
        return (found[0],)
    what = f"has {len(found)} columns of words ({listing(found)})" if found else "has no column of words"
    raise UserError(f"{path} {what}: name the column with the texts for the pretrained model with --text")
