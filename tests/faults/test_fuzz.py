"""Every reader takes corrupted files or refuses them with a sentence: no crash, no hang, no memory, no trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.fuzz import fuzz
from faults.readers import READERS

# More tries where one is cheap; together 106,000.
LONG = dict.fromkeys(READERS, 6000) | dict.fromkeys(("idx", "cifar", "xml", "state", "checkpoint"), 10_000)
LONG |= dict.fromkeys(("csv", "manifest"), 4000)
PART = 2000  # of one test, so that two workers share them out evenly


def check(name: str, folder: Path, start: int, tries: int) -> None:
    report = fuzz(name, folder / "fuzz", start=start, tries=tries)
    assert report["tries"] == tries
    assert report["mutations"] > tries // 2
    # Neither refused as a whole nor taken as a whole: the tries reach what is behind the first check.
    assert 0 < report["taken"] < tries
    assert report["aborts"] < max(3, tries // 500)


@pytest.mark.parametrize("name", READERS)
def test_corrupted_files_get_a_sentence(name: str, tmp_path: Path) -> None:
    check(name, tmp_path, 0, 200)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "start"),
    [(name, start) for name, tries in LONG.items() for start in range(1000, 1000 + tries, PART)],
)
def test_a_hundred_thousand_corrupted_files(name: str, start: int, tmp_path: Path) -> None:
    assert sum(LONG.values()) >= 100_000
    check(name, tmp_path, start, PART)
