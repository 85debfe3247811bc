"""Tables from Python: polars and pandas frames."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tailmask._util.messages import UserError, require

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["as_polars", "frame_library", "like_features", "named_columns"]


def frame_library(value: Any) -> str | None:
    """The library of a frame or series, "pandas" or "polars"; None for anything else.

    >>> frame_library([[1, 0]])
    """
    package = type(value).__module__.partition(".")[0]
    return package if package in ("pandas", "polars") else None


def like_features(values: Tensor, classes: Iterable[str], features: Any) -> Any:
    """Values (N, C) as a frame of the library of the features; unchanged if the features are no frame."""
    library = frame_library(features)
    if library is None:
        return values
    return named_columns(values.numpy(), classes, library=library, features=features)


def named_columns(values: NDArray[Any], names: Iterable[Any], *, library: str, features: Any) -> Any:
    """Values (N, C) as a frame with these names; a frame of pandas has the index of the features, if any."""
    columns = {str(name): values[:, number] for number, name in enumerate(names)}
    frame = importlib.import_module(library).DataFrame(columns)
    both_pandas = library == frame_library(features) == "pandas"
    return frame.set_axis(features.index) if both_pandas else frame


def as_polars(frame: Any) -> pl.DataFrame:
    """A polars frame; a pandas frame is converted without its index.

    >>> polars = require("polars", extra="tables")
    >>> as_polars(polars.LazyFrame({"x": [1, 2]})).shape
    (2, 1)
    """
    polars = require("polars", extra="tables")
    if isinstance(frame, polars.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, polars.DataFrame):
        polars_frame: pl.DataFrame = frame
        return polars_frame
    if type(frame).__module__.partition(".")[0] != "pandas" or not hasattr(frame, "columns"):
        raise UserError(
            f"data must be a name, a path, or a polars or pandas frame, got {type(frame).__name__}: save "
            "arrays as .npz"
        )
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise UserError("two columns of the frame have the same name: rename one of them")
    made: pl.DataFrame = polars.DataFrame([_series(name, frame.iloc[:, n]) for n, name in enumerate(names)])
    return made


def _series(name: str, column: Any) -> pl.Series:
    polars = require("polars", extra="tables")
    made: pl.Series
    if getattr(column.dtype, "kind", "O") in "biuf" and type(column.dtype).__module__.startswith("numpy"):
        made = polars.Series(name, column.to_numpy(), nan_to_null=True)
        return made
    cells = column.astype(object).where(column.notna(), None).tolist()
    cells = [sorted(cell, key=str) if isinstance(cell, set | frozenset) else cell for cell in cells]
    try:
        made = polars.Series(name, cells)
    except (TypeError, polars.exceptions.PolarsError):  # numbers and words in one column, as in CSV files
        made = polars.Series(name, list(map(_text, cells)), polars.String)
    return made


def _text(cell: Any) -> str | None:
    """A cell of a column with numbers and words, as `as_text` writes it in a column with only numbers."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return None if cell is None else str(cell)
