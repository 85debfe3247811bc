"""Files to be written: of a known kind, and never over one that is there unless that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tailmask.errors import UserError

__all__ = ["check_target"]


def check_target(target: Path, suffixes: Sequence[str], *, force: bool) -> None:
    """An error for a file whose ending is not among `suffixes`, or which is there without `force`.

    >>> check_target(Path("out.xls"), (".csv", ".parquet"), force=False)
    Traceback (most recent call last):
    tailmask.errors.UserError: out.xls cannot be written: its name must end with .csv or .parquet
    """
    if target.suffix.lower() not in suffixes:
        raise UserError(f"{target} cannot be written: its name must end with {' or '.join(suffixes)}")
    if target.is_dir():
        raise UserError(f"{target} is a folder: name a file")
    if target.exists() and not force:
        raise UserError(f"{target} is there already: choose another name, or write over it with --force")
