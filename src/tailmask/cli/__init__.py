"""The command line: `main` runs a command and turns a user's mistake into one sentence.

What the commands do and what they print lives in the other rooms.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from tailmask._util.messages import UserError, explain, one_line, require

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake gets one sentence and exit code 2, never a traceback.

    >>> main(["--version"])
    tailmask ...
    0
    """
    warnings.showwarning = _show_warning
    try:
        require("cyclopts", extra="cli")
        _run(arguments)
        sys.stdout.flush()  # here, so that a closed pipe is handled below
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # a full disk, a folder without write permission
        return _fail(explain(error) or str(error))
    except (ValueError, MemoryError, RuntimeError) as error:
        sentence = explain(error)
        if sentence is None:
            raise
        return _fail(sentence)
    return 0


def _run(arguments: Sequence[str] | None) -> None:
    from cyclopts import CycloptsError

    from tailmask.cli.app import app, sentence

    try:
        app(arguments)
    except CycloptsError as error:
        raise UserError(sentence(error)) from None


def _fail(sentence: str) -> int:
    _say(sentence, sys.stderr)
    return 2


def _say(sentence: str, file: TextIO) -> None:
    print(f"tailmask: {one_line(sentence)}", file=file)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    _say(f"warning: {message}", file or sys.stderr)
