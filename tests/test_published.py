"""What is published in results/ was made by the commands: each page is what its JSON renders to."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tailmask.report.result_markdown import render_markdown

RESULTS = Path(__file__).parents[1] / "results"
FILES = sorted(RESULTS.rglob("*.json"))


def test_there_are_results() -> None:
    assert FILES


def test_no_page_is_typed_by_hand() -> None:
    pages = {path for path in RESULTS.rglob("*.md") if path.name != "README.md"}
    assert pages == {path.with_suffix(".md") for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RESULTS)))
def test_the_page_is_what_the_json_renders_to(path: Path) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    assert path.with_suffix(".md").read_text(encoding="utf-8") == render_markdown(result)
    assert result["command"].startswith("tailmask ")
    assert re.fullmatch(r"[0-9a-f]{40}", result["commit"])
    assert result["machine"]
    assert result["seeds"]
    assert not re.search(r'"/|[ =]/\w', json.dumps(result)), "a path of the machine that made it"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """The scripts in results/, by their names; they import each other from there."""
    monkeypatch.syspath_prepend(str(RESULTS))
    return importlib.import_module


def test_the_overview_is_of_the_comparisons_that_there_are(scripts: Callable[[str], Any]) -> None:
    found = scripts("published").comparisons(RESULTS / "compare")
    assert (RESULTS / "README.md").read_text(encoding="utf-8") == scripts("overview").render(found)


def test_the_picture_shows_what_was_measured(scripts: Callable[[str], Any]) -> None:
    found = scripts("published").comparisons(RESULTS / "compare")
    picture = scripts("picture")
    axes = picture.gains(found).axes[0]
    marks = {round(float(line.get_xdata()[0]), 6) for line in axes.lines if line.get_marker() == "o"}
    means = {
        round(100 * comparison.difference(method, "f1", decision=decision).mean, 6)
        for comparison in found.values()
        for method, decision, _ in picture.ROWS
    }
    assert marks == means
    assert [label.get_text() for label in axes.get_yticklabels()] == list(found)
    assert all(f">{name}<" in (RESULTS / "gains.svg").read_text(encoding="utf-8") for name in found)


def test_documents_tell_what_was_measured(scripts: Callable[[str], Any]) -> None:
    found = scripts("published").comparisons(RESULTS / "compare")
    documents = scripts("documents")
    for path in documents.PATHS:
        text = path.read_text(encoding="utf-8")
        assert "<!-- measured: " in text
        assert text == documents.filled(text, found), f"run python results/overview.py: {path.name} is behind"
