"""Names and tables as Markdown; special characters in names are escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tailmask._util.messages import printable

__all__ = ["escape", "escape_prose", "markdown_table"]


def escape(text: str) -> str:
    r"""Markdown that shows the text literally, on one line.

    >>> print(escape("a|b <script> *c* \x1bc"))
    a\|b &lt;script&gt; \*c\* �c
    """
    flat = printable(" ".join(text.split())).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", flat)


def escape_prose(text: str) -> str:
    r"""Markdown that shows sentences literally, except that names between backticks are code.

    >>> print(escape_prose("Use `plm_1` [*]"))
    Use `plm_1` \[\*\]
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    # The dots keep the spaces at the ends of a part.
    shown = [
        f"`{printable(part)}`" if place % 2 else escape(f".{part}.")[1:-1] for place, part in enumerate(parts)
    ]
    return "".join(shown)


def markdown_table(rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A Markdown table of rows of text; the first row is the header, and the first `left` columns align left.

    The other columns align right. A bold cell, `**…**`, is not escaped.

    >>> print(markdown_table([["class", "F1"], ["a|b", "**1.00**"]]))
    | class | F1 |
    | --- | ---: |
    | a\\|b | **1.00** |
    """
    header, *body = ([_cell(text) for text in row] for row in rows)
    rule = ["---" if column < left else "---:" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *body])


def _cell(text: str) -> str:
    return text if text.startswith("**") and text.endswith("**") else escape(text)
