"""Fill docs/api.md with the signatures of all public names: python docs/api_signatures.py

A list of a module's names is written between `<!-- names: MODULE -->` and `<!-- end -->`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parent / "api.md"

_LONGEST_VALUE = 80


def filled(page: str) -> str:
    """The page with the names of each module as they are now."""

    def part(match: re.Match[str]) -> str:
        return f"{match[1]}\n" + "\n".join(_lines(match[2])) + "\n<!-- end -->"

    return re.sub(r"(<!-- names: ([\w.]+) -->).*?<!-- end -->", part, page, flags=re.DOTALL)


def _lines(module_name: str) -> Iterator[str]:
    module = importlib.import_module(module_name)
    yield f"`{module_name}`:\n"
    for name in module.__all__:
        value = getattr(module, name)
        if callable(value):
            yield f"- `{name}{_signature(value)}`: {_first_line(value)}"
        elif len(repr(value)) <= _LONGEST_VALUE:
            yield f"- `{name} = {value!r}`"
        else:
            yield f"- `{name}`: {type(value).__name__} of {', '.join(map(str, value))}"


def _signature(value: object) -> str:
    """The parameters with types and defaults; nothing for a class that is not called."""
    if inspect.isclass(value) and (inspect.isabstract(value) or getattr(value, "_is_protocol", False)):
        return ""
    signature = inspect.signature(value)
    texts = []
    star = False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not star:
            texts.append("*")
            star = True
        texts.append(_parameter(each))
        if each.kind is each.VAR_POSITIONAL:
            star = True
    returned = signature.return_annotation
    arrow = "" if inspect.isclass(value) or returned is signature.empty else f" → {_type(returned)}"
    return f"({', '.join(texts)}){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    text = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text += parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_type(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        default = parameter.default
        text += " = " + (default.__name__ if callable(default) else repr(default).replace("<factory>", "…"))
    return text


def _type(annotation: object) -> str:
    text = getattr(annotation, "__forward_arg__", annotation)  # of a named tuple
    return text if isinstance(text, str) else inspect.formatannotation(text)


def _first_line(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
