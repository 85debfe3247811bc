"""The cards of the words in the documentation, made from the registry: python -m tailmask.methods.cards

In docs/methods.md it fills the part between `<!-- card: WORD -->` and `<!-- end -->`, and adds a section
for a new word; in docs/choosing-a-method.md it fills the table of words.
"""

from __future__ import annotations

import inspect
import re
import typing
from pathlib import Path
from typing import Literal

from tailmask._util.registry import DeclaredOption, Word, find_words
from tailmask.methods.option_values import write_value

__all__ = ["card", "filled", "word_table"]


def card(word: Word) -> str:
    """The card of a word in Markdown: what it is, its options, what to mind, and where it was published.

    >>> print(card(find_words()["hill"]))
    **What.** Hill loss (Zhang et al. 2021), for data where missing positives are recorded as negatives. ...
    """
    text, *sections = re.split(r"^(\w+):\n", inspect.getdoc(word.builder) or "", flags=re.MULTILINE)
    section = dict(zip(sections[::2], sections[1::2], strict=True))
    paragraphs = [each for each in text.split("\n\n") if not each.startswith(">>>")]
    parts = [f"**What.** {_one_line(' '.join(paragraphs))}"]
    texts = _entries(section.get("Args", ""))
    options = [f"- `{name}`{_values(option)}: {texts[name]}" for name, option in word.options.items()]
    parts.append("**Options.** None." if not options else "**Options.**")
    if options:
        parts.append("\n".join(options))
    parts += [f"**{name}.** {_one_line(section[name])}" for name in ("Mind", "Paper") if name in section]
    return "\n\n".join(parts)


def word_table() -> str:
    """All words with their summaries and links to their cards, as a table in Markdown.

    >>> word_table().splitlines()[0]
    '| word | what it does | card |'
    """
    rows = [
        f"| `{word.name}` | {word.summary} | [{word.name}](methods.md#{word.name}) |"
        for word in find_words().values()
    ]
    return "\n".join(["| word | what it does | card |", "|---|---|---|", *rows])


def filled(page: str, *, add_missing: bool = False) -> str:
    """A page with its cards and its table of words as the registry has them.

    >>> filled("<!-- words --> <!-- end -->").splitlines()[2]
    '| word | what it does | card |'
    """
    cards = {name: card(word) for name, word in find_words().items()}
    missing = [name for name in cards if f"<!-- card: {name} -->" not in page] if add_missing else []
    for name in missing:
        page = (
            f"{page.rstrip()}\n\n## {name}\n\n<!-- card: {name} --> <!-- end -->\n\n**Measured.** Not yet.\n"
        )
    page = re.sub(
        r"(<!-- card: (\w+) -->).*?(<!-- end -->)",
        lambda match: f"{match[1]}\n\n{cards[match[2]]}\n\n{match[3]}",
        page,
        flags=re.DOTALL,
    )
    return re.sub(
        r"(<!-- words -->).*?(<!-- end -->)",
        lambda match: f"{match[1]}\n\n{word_table()}\n\n{match[2]}",
        page,
        flags=re.DOTALL,
    )


def _entries(section: str) -> dict[str, str]:
    """The texts of an Args section, by name."""
    found = re.findall(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)", section, flags=re.MULTILINE)
    return {name: _one_line(text) for name, text in found}


def _values(option: DeclaredOption) -> str:
    """The allowed values of an option and its default, in brackets; no default is named if it is None."""
    allowed, default = option.option.allowed, option.default
    if typing.get_origin(option.kind) is Literal:
        *choices, last = [f"`{each}`" for each in typing.get_args(option.kind)]
        allowed = f"{', '.join(choices)} or {last}"
    stated = [allowed, "" if default is None else f"default {write_value(default)}"]
    text = "; ".join(filter(None, stated))
    return f" ({text})" if text else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _main() -> None:
    docs = Path("docs")
    for name in ("methods.md", "choosing-a-method.md"):
        path = docs / name
        text = path.read_text(encoding="utf-8")
        path.write_text(filled(text, add_missing=name == "methods.md"), encoding="utf-8")


if __name__ == "__main__":
    _main()
