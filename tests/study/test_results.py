"""Results that are kept in the repository: each Markdown page is what its JSON renders to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tailmask.study import render_markdown

RESULTS = Path(__file__).parents[2] / "results"
FILES = [path for path in sorted(RESULTS.rglob("*.json")) if path.with_suffix(".md").exists()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RESULTS)))
def test_markdown_is_rendered_from_json(path):
    assert path.with_suffix(".md").read_text(encoding="utf-8") == render_markdown(
        json.loads(path.read_text(encoding="utf-8"))
    )


def test_no_page_is_typed_by_hand():
    pages = {path for path in RESULTS.rglob("*.md") if path.name != "README.md"}
    assert pages == {path.with_suffix(".md") for path in FILES}
