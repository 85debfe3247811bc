"""From a command's signature to its options: one typed function, one parser.

A parameter's kind says what it is on the command line:

- positional-only (before the `/`): an argument, optional where it has a default; `*names` takes several
- keyword-only: an option; `out` also as `-o`; a boolean one is a flag, a list takes several words
- a dataclass, such as `options: DataOptions`: one option a field, under a heading of their own, or those of
  its `GROUPS`

The docstring's first paragraph is the description, its `Args:` (as in the dataclass's) are the help texts.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import inspect
import itertools
import operator
import re
import typing
from collections.abc import Callable, Collection, Sequence
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser

from tailmask.errors import UserError, nearest

__all__ = ["call_with_arguments"]

# Options that take several names in one word.
_WITH_COMMAS = ("--labels", "--features", "--drop", "--text")

# What a user calls the types.
_KINDS = {"int": "a whole number", "float": "a number", "str": "a text", "pathlib.Path": "a path"}


def call_with_arguments(function: Callable[..., Any], arguments: Sequence[str], *, prog: str) -> Any:
    """Call a command's function with what the user typed.

    >>> def greet(name: str = "world", /, *, times: int = 1, loud: bool = False) -> None:
    ...     '''Greet somebody.'''
    ...     print(("HELLO " if loud else "hello ") * times + name)
    >>> call_with_arguments(greet, ["reader", "--times", "2"], prog="greet")
    hello hello reader
    """
    parser, groups = _parser(function, prog)
    _refuse_unknown_options(parser, arguments)
    _refuse_repeated_options(parser, arguments)
    try:
        values = vars(parser.parse_args(list(arguments)))
    except ArgumentError as error:
        _refuse_words_for_commas(str(error), arguments)
        sentence = _missing(str(error), parser) or _one_sentence(str(error))
        raise UserError(f"{sentence} (see {prog} --help)") from None
    keywords, positional = {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in groups:
            fields = [field.name for field in dataclasses.fields(groups[name])]
            keywords[name] = groups[name](**{field: values[field] for field in fields})
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional += values[name]
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(values[name])
        else:
            keywords[name] = values[name]
    return function(*positional, **keywords)


def _parser(function: Callable[..., Any], prog: str) -> tuple[ArgumentParser, dict[str, type]]:
    docstring = inspect.getdoc(function) or ""
    texts = _help_texts(docstring)
    parser = ArgumentParser(
        prog=prog,
        description=docstring.partition("\n\n")[0],
        formatter_class=_HelpFormatter,
        exit_on_error=False,
        allow_abbrev=False,
    )
    hints = typing.get_type_hints(function)
    groups: dict[str, type] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if dataclasses.is_dataclass(hints[name]):
            groups[name] = typing.cast(type, hints[name])
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            _add_argument(parser, name, hints[name], parameter, texts.get(name))
        else:
            _add_option(parser, name, hints[name], parameter.default, texts.get(name))
    for name, group in groups.items():
        _add_fields(parser, group, heading=texts.get(name, name))
    parser.usage = _usage(function, prog, groups)
    return parser, groups


def _add_fields(parser: ArgumentParser, group: type, *, heading: str) -> None:
    """One option a field of a dataclass, below the headings of its GROUPS if it has any."""
    texts, hints = _help_texts(inspect.getdoc(group) or ""), typing.get_type_hints(group)
    defaults = {field.name: field.default for field in dataclasses.fields(group)}
    for title, names in getattr(group, "GROUPS", {heading: tuple(defaults)}).items():
        container = parser.add_argument_group(title)
        for name in names:
            _add_option(container, name, hints[name], defaults[name], texts.get(name))


def _usage(function: Callable[..., Any], prog: str, groups: Collection[str]) -> str:
    words = [prog]
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            words.append(f"{name.upper()}...")
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            words.append(name.upper() if parameter.default is parameter.empty else f"[{name.upper()}]")
        elif parameter.default is parameter.empty and name not in groups:
            words.append(f"--{name.replace('_', '-')} {name.rpartition('_')[2].upper()}")
    return " ".join([*words, "[OPTIONS]"])


def _add_argument(
    parser: ArgumentParser, name: str, hint: Any, parameter: inspect.Parameter, text: str | None
) -> None:
    hint = _without_none(hint)
    if parameter.kind is parameter.VAR_POSITIONAL:
        parser.add_argument(name, type=hint, nargs="+", help=text)
    elif parameter.default is parameter.empty:
        parser.add_argument(name, type=hint, help=text)
    else:
        parser.add_argument(name, type=hint, nargs="?", default=parameter.default, help=text)


def _without_none(hint: Any) -> Any:
    """The type without None, as which jsonargparse would take `null`, `~` and, as YAML's comment, `#id`."""
    kinds = typing.get_args(hint)
    return functools.reduce(operator.or_, kinds[:-1]) if kinds[-1:] == (type(None),) else hint


def _add_option(container: Any, name: str, hint: Any, default: Any, text: str | None) -> None:
    option = "--" + name.replace("_", "-")
    names = ["-o", option] if name == "out" else [option]
    settings: dict[str, Any] = {"dest": name, "help": text}
    if default is inspect.Parameter.empty:
        settings["required"] = True
    else:
        settings["default"] = list(default) if isinstance(default, (list, tuple)) else default
    if hint is bool and default:
        settings["help"] = f"do not {text}"
        container.add_argument(f"--no-{name.replace('_', '-')}", action="store_false", **settings)
    elif hint is bool:
        container.add_argument(*names, action="store_true", **settings)
    elif typing.get_origin(hint) in (list, Sequence):
        container.add_argument(*names, type=typing.get_args(hint)[0], nargs="+", **settings)
    else:
        container.add_argument(*names, type=_without_none(hint), **settings)


class _HelpFormatter(argparse.HelpFormatter):
    """Help without types and empty defaults: what an option is for, and what it is where left out."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        hidden = action.default is None or action.default in (argparse.SUPPRESS, []) or action.nargs == 0
        if hidden or "default" in text or action.required:
            return text
        default = " ".join(map(str, action.default)) if isinstance(action.default, list) else action.default
        return f"{text} (default: {default})".replace("%", "%%")

    def _get_default_metavar_for_optional(self, action: argparse.Action) -> str:
        return action.dest.rpartition("_")[2].upper()


def _help_texts(docstring: str) -> dict[str, str]:
    """The texts of a docstring's Args section, by name.

    >>> _help_texts("Do it.\\n\\nArgs:\\n    much: how much\\n        of it\\n    fast: at once\\n")
    {'much': 'how much of it', 'fast': 'at once'}
    """
    _, _, section = docstring.partition("Args:\n")
    entries = re.findall(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _refuse_unknown_options(parser: ArgumentParser, arguments: Sequence[str]) -> None:
    known = [option for action in parser._actions for option in action.option_strings]
    for word in arguments:
        option = word.partition("=")[0]
        if re.fullmatch(r"--[a-zA-Z][\w.-]*", option) and option not in known:
            long = [name for name in known if name.startswith("--")]
            raise UserError(f"there is no option {option}: {nearest(option, long)}")


def _refuse_repeated_options(parser: ArgumentParser, arguments: Sequence[str]) -> None:
    """An error for an option of which argparse would take the last alone."""
    given = set()
    for word in itertools.takewhile(lambda word: word != "--", arguments):
        known = parser._option_string_actions
        action = known.get(word.partition("=")[0]) or known.get(word[:2])  # --out=f and -of
        if action is None or action.nargs == 0:
            continue
        option = action.option_strings[-1]
        if option in given:
            several = "name all behind one of them" if action.nargs == "+" else "leave one out"
            hint = "name all in one word, with commas" if option in _WITH_COMMAS else several
            raise UserError(f"{option} is given twice: {hint}")
        given.add(option)


def _refuse_words_for_commas(message: str, arguments: Sequence[str]) -> None:
    """Where words are left over after an option that takes them with commas, say so."""
    for option in _WITH_COMMAS if "unrecognized arguments" in message else ():
        if option in arguments:
            following = arguments[arguments.index(option) + 1 :]
            words = list(itertools.takewhile(lambda word: not word.startswith("-"), following))
            if len(words) > 1:
                raise UserError(
                    f"{option} takes its names in one word, with commas and no spaces, "
                    f"as in {option} first,second"
                )


def _missing(message: str, parser: ArgumentParser) -> str | None:
    """What is missing, by the names that a user types; None where the message is about something else."""
    match = re.search(r"arguments are required: (.+)", message)
    if match is None:
        return None
    actions = [action for action in parser._actions if action.dest in match[1].split(", ")]
    *names, last = [(action.option_strings or [action.dest.upper()])[-1] for action in actions]
    if names:
        return f"{', '.join(names)} and {last} are missing"
    return f"{last} is missing" + (f": {actions[0].help}" if actions[0].help else "")


def _one_sentence(message: str) -> str:
    """What jsonargparse says over several lines, in one.

    >>> _one_sentence('Parser key "rho":\\n  Expected a <class \\'float\\'>. Got value: x')
    "--rho takes a number, got 'x'"
    """
    key = re.search(r'Parser key "([\w.]+)"', message)
    value = re.search(r"(?:Got|Given) value: (.*)", message)
    wanted = re.findall(r"Expected an? (?:<class '([\w.]+)'>|typing\.Literal\[(.*?)\])", message)
    if key is None or value is None or not wanted:
        return " ".join(message.split())
    kinds = [
        _KINDS.get(kind, kind) or "one of " + choices.replace("'", "")
        for kind, choices in wanted
        if kind != "NoneType"
    ]
    return f"--{key[1].replace('_', '-')} takes {' or '.join(dict.fromkeys(kinds))}, got {value[1]!r}"
