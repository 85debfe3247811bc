"""Names and numbers as Markdown shows them: nothing of a name is taken for markup."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tailmask._util.messages import printable

__all__ = ["escape", "markdown_table"]


def escape(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    >>> print(escape("a|b <script> *c* \x1bc"))
    a\|b &lt;script&gt; \*c\* �c
    """
    flat = printable(" ".join(text.split())).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", flat)


def markdown_table(rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Rows of text, the first being the header, as a table; all but `left` columns stand right.

    A cell in bold, `**…**`, is taken as it is.

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
