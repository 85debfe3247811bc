"""The command line: a static table of commands, each a typed function in a module of its own.

Only the module of the command that is called is imported, so that `tailmask --help` costs no torch.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from tailmask import __version__
from tailmask.errors import UserError, explain, nearest, one_line

__all__ = ["main"]


class Command(NamedTuple):
    """One command: what it is for, and the function behind it."""

    help: str
    function: str  # module:name


COMMANDS = {
    "compare": Command("does PLM help on your data? train, compare, report", "tailmask.cli.compare:compare"),
    "train": Command("train one method on one data set", "tailmask.cli.train:train"),
    "data": Command("statistics of a data set, yours or a public one", "tailmask.cli.data:data"),
    "report": Command("make a page from finished runs", "tailmask.cli.report:report"),
    "predict": Command("labels for new inputs from a finished run", "tailmask.cli.predict:predict"),
    "export": Command("a finished run's model in other formats", "tailmask.cli.export:export"),
    "reproduce": Command("a table or figure of the paper", "tailmask.cli.reproduce:reproduce"),
}

_HELP = """usage: tailmask COMMAND [OPTIONS]

Train classifiers on imbalanced data, multi-label data above all.

commands:
{commands}

`tailmask compare` by itself shows what it does, on a small embedded data set.
`tailmask COMMAND --help` lists a command's options.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake gets one sentence and exit code 2, never a traceback.

    >>> main(["--version"])
    tailmask ...
    0
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    name = arguments[0] if arguments else "--help"
    warnings.showwarning = _show_warning
    try:
        if name in ("--help", "-h", "help"):
            print(_help())
        elif name == "--version":
            print(f"tailmask {__version__}")
        else:
            _run(name, arguments[1:])
        sys.stdout.flush()  # here, where a reader that has left can still be dealt with
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # a full disk, a folder that may not be written to
        return _fail(explain(error) or str(error))
    except (ValueError, MemoryError, RuntimeError) as error:
        sentence = explain(error)
        if sentence is None:
            raise
        return _fail(sentence)
    return 0


def _help() -> str:
    width = max(map(len, COMMANDS))
    return _HELP.format(
        commands="\n".join(f"  {name:<{width}}  {each.help}" for name, each in COMMANDS.items())
    )


def _run(name: str, arguments: list[str]) -> None:
    if name not in COMMANDS:
        raise UserError(f"there is no command {name!r}: {nearest(name, COMMANDS)}")
    from tailmask.cli.parser import call_with_arguments

    module, function = COMMANDS[name].function.split(":")
    call_with_arguments(
        getattr(importlib.import_module(module), function), arguments, prog=f"tailmask {name}"
    )


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
