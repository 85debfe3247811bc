"""What is published in results/ was made by the commands: each page is what its JSON renders to."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tailmask.study import render_markdown

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


@pytest.fixture(scope="module")
def overview() -> Any:
    spec = importlib.util.spec_from_file_location("overview", RESULTS / "overview.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_overview_is_of_the_comparisons_that_there_are(overview: Any) -> None:
    found = overview.comparisons(RESULTS / "compare")
    assert (RESULTS / "README.md").read_text(encoding="utf-8") == overview.render(found)


def test_documents_tell_what_was_measured(overview: Any) -> None:
    found = overview.comparisons(RESULTS / "compare")
    for path in overview.DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        assert "<!-- measured: " in text
        assert text == overview.filled(text, found), f"run python results/overview.py: {path.name} is behind"
