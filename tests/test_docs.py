"""Every code block of the docs is run: Python in the ordinary suite, shell commands in the long one."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tailmask
from tailmask.methods import cards, find_words

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Line number and text of the page's code blocks in a language."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [(text[: match.start()].count("\n") + 2, match[1]) for match in found]


def pages_with(language: str) -> list:
    return [pytest.param(page, id=page.name) for page in PAGES if blocks(page, language)]


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for line, code in blocks(page, "python"):
        exec(compile("\n" * (line - 1) + code, page, "exec"), namespace)


@pytest.mark.long
@pytest.mark.parametrize("page", pages_with("sh"))
def test_shell_blocks_run(page, tmp_path):
    """In one folder a page, with the page's Python blocks before them in their order."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(python|sh)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        language, code = match.groups()
        command = (
            [sys.executable, "-c", code] if language == "python" else ["bash", "-euo", "pipefail", "-c", code]
        )
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, (
            f"{page.name}:\n{code}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}"
        )


def test_other_blocks_are_not_code():
    """Blocks that are not run show output, layouts or cluster commands, and say so by their language."""
    for page in PAGES:
        for language in re.findall(r"^```(\S*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            assert language in {"", "python", "sh", "text", "diff", "toml", "json"}, (
                f"{page.name}: {language}"
            )


# Files that the reader of a page makes. A new file of CONTRIBUTING's examples has a neighbour of any name.
MADE_BY_READERS = {"comparison.md", "mine.py", "mine.toml", "commands.txt", "table1.txt", "names.txt"}
ANY_NAME = re.compile("NAME|ITEM|hinge(_loss)?|centroids")


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_files_that_a_page_names_exist(page):
    """A file without a folder, or with the last ones of its folders, may be anywhere in the repository."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|md|toml|txt))`", text)) - MADE_BY_READERS
    linked = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    folders = ("src", "tests", "docs", "benchmarks", "examples", "results")
    there = [*ROOT.glob("*.*"), *(path for folder in folders for path in (ROOT / folder).rglob("*.*"))]
    missing = [name for name in named if not any(path.match(ANY_NAME.sub("*", name)) for path in there)]
    assert missing + [link for link in linked if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["methods.md", "choosing-a-method.md"])
def test_cards_are_those_of_the_registry(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    assert text == cards.filled(text, add_missing=name == "methods.md"), (
        "run python -m tailmask.methods.cards"
    )


def test_the_api_page_has_the_signatures_of_all_public_names(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    signatures = importlib.import_module("api_signatures")
    text = signatures.PAGE.read_text(encoding="utf-8")
    assert "- `focal_loss(logits: Tensor" in text
    assert text == signatures.filled(text), "run python docs/api_signatures.py"
    public = {f"tailmask.{name}" for name in dir(tailmask) if hasattr(getattr(tailmask, name), "__all__")}
    assert public <= set(re.findall(r"<!-- names: (\S+) -->", text))


def test_the_tutorial_shows_its_script():
    script = (DOCS.parent / "examples" / "tutorial.py").read_text(encoding="utf-8")
    assert f"```text\n{script}```" in (DOCS / "tutorial.md").read_text(encoding="utf-8")


def test_a_new_word_gets_a_section_of_its_own():
    page = cards.filled("# Method cards\n", add_missing=True)
    assert re.findall(r"^## (.+)$", page, flags=re.MULTILINE) == list(find_words())
    assert cards.filled(page, add_missing=True) == page


@pytest.mark.parametrize("way", ["compare", "fit"])
def test_each_call_of_a_way_is_a_name_of_the_package(way):
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    listed = text.partition(f"## The way of `{way}`")[2].partition("```text\n")[2].partition("```")[0]
    calls = re.findall(r"^ *\d+ +(.+?)(?:  |$)", listed, flags=re.MULTILINE)
    names = {
        re.sub(r"\(.*\)", "", name).split(".")[-1] for call in calls for name in re.split(" → |, ", call)
    }
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert 10 < len(calls) <= 25
    assert [
        name for name in names if not re.search(rf"^ *(?:def|class) {name}\b", source, re.MULTILINE)
    ] == []
