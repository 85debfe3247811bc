"""Messages for users when something is wrong: one sentence each, never a traceback."""

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

# What torch says where an allocation fails: on a GPU, in its libraries, on the CPU.
_OUT_OF_MEMORY = ("out of memory", "ALLOC_FAILED", "can't allocate memory", "not enough memory")


class UserError(ValueError):
    """A mistake in what the user handed over: the command line prints its sentence and exits with 2."""


def explain(error: Exception) -> str | None:
    """The sentence for a user whose files, machine or arguments are to blame; None where the defect is ours.

    A `ValueError` is the user's if a `raise` statement of tailmask raised it.

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
        return "memory ran out: close other programs, or ask for less at a time, as with fewer --jobs"
    return None


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation has failed, on a GPU or in the machine's own memory.

    >>> is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    True
    """
    if (
        isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    ):  # without importing torch
        return True
    return isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in _OUT_OF_MEMORY)


def _is_ours(error: ValueError) -> bool:
    """Whether a `raise` statement of tailmask raised it, and not a function in C that tailmask calls."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return False
    frame, number = frames[-1]
    line = linecache.getline(frame.f_code.co_filename, number, frame.f_globals)
    return str(frame.f_globals.get("__name__")).startswith("tailmask.") and line.lstrip().startswith("raise ")


def listing(names: Iterable[object], *, limit: int = 5) -> str:
    """Names as readable text, cut after `limit` of them.

    >>> listing(["cat", "dog"])
    'cat, dog'
    >>> listing(range(100), limit=3)
    '0, 1, 2 and 97 more'
    """
    texts = [str(name) for name in names]
    shown = ", ".join(texts[:limit])
    return shown if len(texts) <= limit else f"{shown} and {len(texts) - limit} more"


def nearest(name: str, choices: Iterable[str]) -> str:
    """A hint that names the choice most like `name`, and all choices where none is like it.

    >>> nearest("focl", ["bce", "focal"])
    "did you mean 'focal'?"
    >>> nearest("nope", ["age", "income"])
    'choose from age, income'
    """
    choices = list(choices)
    close = closest(name, choices)
    return f"did you mean {close!r}?" if close else f"choose from {listing(choices, limit=30)}"


def closest(name: str, choices: Iterable[str]) -> str | None:
    """The choice most like `name`, None where none is like it.

    Two thirds of the letters must agree, whatever their case: a few are the same in any two words.

    >>> closest("Focl", ["bce", "focal"]), closest("nope", ["age", "income"])
    ('focal', None)
    """
    folded = {choice.casefold(): choice for choice in reversed(list(choices))}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.66)
    return folded[close[0]] if close else None


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional package, or say which extra brings it.

    >>> require("json", extra="cli").dumps([1])
    '[1]'
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except OSError as error:  # LightGBM is linked with libgomp, which small images of Linux lack
        raise UserError(
            f"the package {package!r} cannot be loaded ({error}): install the library that it names, such as "
            "libgomp1 with apt"
        ) from None
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != package:
            raise
        raise UserError(
            f"this needs the package {package!r}, which is not installed: run pip install 'tailmask[{extra}]'"
        ) from None


def printable(name: str) -> str:
    r"""A name with a mark for each character that would move a cursor or break a file.

    >>> printable("naïve \x1b[2J")
    'naïve �[2J'
    """
    return "".join(character if character.isprintable() else "�" for character in name)


def one_line(text: str) -> str:
    r"""A text in one line for the terminal: names in it, from whoever's file, cannot move the cursor.

    >>> one_line("no sample of\nnaïve \x1b[2J")
    'no sample of naïve �[2J'
    """
    return printable(" ".join(text.splitlines()))


def warn(message: str) -> None:
    """Warn at the line of the caller's code that called tailmask, however deep inside this happens.

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
