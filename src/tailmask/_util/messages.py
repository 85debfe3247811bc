"""Error messages for users: one sentence each, never a traceback."""

from __future__ import annotations

import difflib
import importlib
import linecache
import sys
import traceback
import warnings
from collections.abc import Iterable
from types import ModuleType

__all__ = [
    "UserError",
    "check_count",
    "closest",
    "explain",
    "is_out_of_memory",
    "listing",
    "nearest",
    "one_line",
    "printable",
    "require",
    "warn",
]

# Torch's messages when an allocation fails: on a GPU, in its libraries, on the CPU.
_OUT_OF_MEMORY = ("out of memory", "ALLOC_FAILED", "can't allocate memory", "not enough memory")


class UserError(ValueError):
    """A mistake in the user's input: the command line prints the message and exits with code 2."""


def explain(error: Exception) -> str | None:
    """The message for an error in the user's files, machine or arguments; None for a bug in tailmask.

    A `ValueError` counts as the user's if a `raise` statement in tailmask raised it.

    >>> explain(UserError("name a folder"))
    'name a folder'
    >>> explain(FileNotFoundError(2, "No such file or directory", "a.csv"))
    'No such file or directory: a.csv'
    >>> explain(ZeroDivisionError("division by zero")) is None
    True
    """
    if isinstance(error, UserError) or (isinstance(error, ValueError) and _is_ours(error)):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f": {error.filename}" if error.filename else "")
    if is_out_of_memory(error):
        return "memory ran out: close other programs, or do less at a time, for example with fewer --jobs"
    return None


def is_out_of_memory(error: Exception) -> bool:
    """True if an allocation failed, on a GPU or in main memory.

    >>> is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    True
    """
    if (
        isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    ):  # without importing torch
        return True
    return isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in _OUT_OF_MEMORY)


def _is_ours(error: ValueError) -> bool:
    """True if a `raise` statement in tailmask raised the error, not a C function that tailmask calls."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return False
    frame, number = frames[-1]
    line = linecache.getline(frame.f_code.co_filename, number, frame.f_globals)
    return str(frame.f_globals.get("__name__")).startswith("tailmask.") and line.lstrip().startswith("raise ")


def check_count(option: str, value: int | None) -> None:
    """Raise a `UserError` unless an option is left out or is 1 or more.

    >>> check_count("jobs", 0)
    Traceback (most recent call last):
    tailmask._util.messages.UserError: --jobs must be 1 or more, got 0
    """
    if value is not None and value < 1:
        raise UserError(f"--{option} must be 1 or more, got {value}")


def listing(names: Iterable[object], *, limit: int = 5) -> str:
    """Names as readable text, at most `limit` of them.

    >>> listing(["cat", "dog"])
    'cat, dog'
    >>> listing(range(100), limit=3)
    '0, 1, 2 and 97 more'
    """
    texts = [str(name) for name in names]
    shown = ", ".join(texts[:limit])
    return shown if len(texts) <= limit else f"{shown} and {len(texts) - limit} more"


def nearest(name: str, choices: Iterable[str]) -> str:
    """A hint that names the choice most similar to `name`, or all choices if none is similar.

    >>> nearest("focl", ["bce", "focal"])
    "did you mean 'focal'?"
    >>> nearest("nope", ["age", "income"])
    'choose from age, income'
    """
    choices = list(choices)
    close = closest(name, choices)
    return f"did you mean {close!r}?" if close else f"choose from {listing(choices, limit=30)}"


def closest(name: str, choices: Iterable[str]) -> str | None:
    """The choice most similar to `name`; None if none is similar.

    Two thirds of the letters must agree, ignoring case, because any two words have a few letters in common.

    >>> closest("Focl", ["bce", "focal"]), closest("nope", ["age", "income"])
    ('focal', None)
    """
    folded = {choice.casefold(): choice for choice in reversed(list(choices))}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.66)
    return folded[close[0]] if close else None


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional package, or raise a UserError that names the extra to install.

    >>> require("json", extra="cli").dumps([1])
    '[1]'
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except OSError as error:  # LightGBM is linked with libgomp, which small Linux images lack
        raise UserError(
            f"the package {package!r} cannot be loaded ({error}): install the missing library, for example "
            "libgomp1 with apt"
        ) from None
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != package:
            raise
        raise UserError(
            f"this needs the package {package!r}, which is not installed: run pip install 'tailmask[{extra}]'"
        ) from None


def printable(name: str) -> str:
    r"""A name in which � replaces each control character.

    >>> printable("naïve \x1b[2J")
    'naïve �[2J'
    """
    return "".join(character if character.isprintable() else "�" for character in name)


def one_line(text: str) -> str:
    r"""A text on one line for the terminal, without control characters from names in users' files.

    >>> one_line("no sample of\nnaïve \x1b[2J")
    'no sample of naïve �[2J'
    """
    return printable(" ".join(text.splitlines()))


def warn(message: str) -> None:
    """Warn with the line of the user's code that called tailmask, at any depth of calls.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warn("two of the classes have no positives")
    >>> len(caught)
    1
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "tailmask":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
