"""Check of an output file: it has a known suffix, and an existing file is overwritten only on request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tailmask._util.messages import UserError

__all__ = ["check_path"]


def check_path(path: Path, suffixes: Sequence[str], *, force: bool) -> None:
    """Raise a `UserError` if the suffix is not among `suffixes`, or if the file exists and `force` is False.

    >>> check_path(Path("out.xls"), (".csv", ".parquet"), force=False)
    Traceback (most recent call last):
    tailmask._util.messages.UserError: out.xls cannot be written: its name must end with .csv or .parquet
    """
    if path.suffix.lower() not in suffixes:
        raise UserError(f"{path} cannot be written: its name must end with {' or '.join(suffixes)}")
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file")
    if path.exists() and not force:
        raise UserError(f"{path} already exists: choose another name, or overwrite it with --force")
