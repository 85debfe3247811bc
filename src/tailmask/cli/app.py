"""The commands. cyclopts reads their options from the signatures and docstrings.

Only the module of the called command is imported: `tailmask --help` needs no torch.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal

from cyclopts import (
    App,
    ArgumentCollection,
    CoercionError,
    CycloptsError,
    Group,
    MissingArgumentError,
    Parameter,
    UnusedCliTokensError,
)

from tailmask import __version__

__all__ = ["COMMANDS", "app", "sentence"]

# The purpose of each command: the first line for `tailmask --help`, the rest for its own help. The module and
# the function of a command have its name.
COMMANDS = {
    "fit": """Train the best model for your data: several methods, combined, with tuned thresholds.

Methods are trained one after the other and combined. Everything is chosen by out-of-fold scores. The same
command resumes an interrupted fit.""",
    "compare": """Compare methods on your data: which one to use, and how sure that is.

Several methods are trained with several seeds and compared on the test set. Finished runs are read, and
interrupted runs are resumed. The report covers all runs in the folder.""",
    "train": """Train one method on one data set.

An interrupted run is resumed, and a finished run is read.""",
    "embed": """Write the features of a pretrained model to a file.

All commands can read the file. It has the arrays X, Y and classes.""",
    "data": "Show statistics of a data set, your own or a public one.",
    "report": """Make a report from finished runs.

The report is a single HTML file that loads nothing else; csv, json and md contain only the comparison.""",
    "predict": """Predict labels for new inputs with a finished run.

The output has the predicted labels and the probability of each class for every input.""",
    "export": "Convert the model of a finished run to another format.",
    "reproduce": """Reproduce a table or figure of the paper.

Finished runs are read, and interrupted runs are resumed.""",
}

_TYPES = {int: "a whole number", float: "a number", str: "a text", Path: "a path"}


def sentence(error: CycloptsError) -> str:
    """One sentence about a mistake on the command line.

    >>> try:
    ...     app(["train", "digits", "--seed", "many"])
    ... except CycloptsError as error:
    ...     print(sentence(error))
    --seed takes a whole number, got 'many'
    """
    command = " ".join(["tailmask", *(error.command_chain or ())])
    match error:
        case CoercionError(argument=argument, token=token) if argument and token:
            return f"{token.keyword or argument.name} takes {_describe(argument.hint)}, got {token.value!r}"
        case MissingArgumentError(argument=argument) if argument and (error.keyword or argument.tokens):
            name = error.keyword or argument.tokens[-1].keyword
            return f"{name} needs a value; if the value starts with a hyphen, write {name}=VALUE"
        case MissingArgumentError(argument=argument) if argument:
            return f"{argument.name} is missing (see {command} --help)"
        case UnusedCliTokensError(unused_tokens=[first, *_]):
            return (
                f"{first!r} is not expected here (see {command} --help); several names are separated by "
                "commas without spaces, as in --labels first,second"
            )
    return str(error)


def _describe(hint: Any) -> str:
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, UnionType) else (hint,)
    texts = [
        "one of " + ", ".join(map(str, typing.get_args(kind)))
        if typing.get_origin(kind) is Literal
        else _TYPES.get(kind, str(kind))
        for kind in kinds
        if kind is not NoneType
    ]
    return " or ".join(texts)


def _refuse_what_is_no_number(_app: App, _commands: Sequence[str], arguments: ArgumentCollection) -> None:
    """Refuse what is not a number: cyclopts would round 2.5, and read "none" as an option not given."""
    for argument in arguments:
        kinds = {*(typing.get_args(argument.hint) or (argument.hint,))} - {NoneType}
        for token in argument.tokens if kinds in ({int}, {float}) else ():
            (kind,) = kinds
            try:
                kind(token.value)
            except ValueError:
                raise CoercionError(argument=argument, token=token, target_type=kind) from None


def _default_text(value: Any) -> str | None:
    if value is None or value is False or value == ():
        return None
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


app = App(
    "tailmask",
    help="""Train classifiers for rare labels, and find out what helps.

    Start with `tailmask compare`: without arguments, it runs on a small built-in data set.""",
    help_format="markdown",
    group_parameters=Group.create_default_parameters("Options"),
    version=f"tailmask {__version__}",
    config=_refuse_what_is_no_number,
    default_parameter=Parameter(
        allow_repeating=False,
        consume_multiple=1,
        json_dict=False,
        json_list=False,
        negative=(),
        show_default=_default_text,
    ),
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for _position, (_name, _help) in enumerate(COMMANDS.items()):
    app.command(f"tailmask.cli.{_name}:{_name}", name=_name, help=_help, sort_key=_position)
