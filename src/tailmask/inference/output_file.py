"""Files to be written: of a known kind, and never over one that is there unless that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tailmask._util.messages import UserError

__all__ = ["check_path"]


def check_path(path: Path, suffixes: Sequence[str], *, force: bool) -> None:
    """An error for a file whose ending is not among `suffixes`, or which is there without `force`.

    >>> check_path(Path("out.xls"), (".csv", ".parquet"), force=False)
    Traceback (most recent call last):
    tailmask._util.messages.UserError: out.xls cannot be written: its name must end with .csv or .parquet
    """
    if path.suffix.lower() not in suffixes:
        raise UserError(f"{path} cannot be written: its name must end with {' or '.join(suffixes)}")
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file")
    if path.exists() and not force:
        raise UserError(f"{path} is there already: choose another name, or write over it with --force")
