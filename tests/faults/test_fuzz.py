"""Every reader takes corrupted files or refuses them with a sentence; `fuzz.py` itself tries more."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.fuzz import fuzz
from faults.readers import READERS

TRIES, MANY_TRIES = 60, 6700  # of each of 15 readers


@pytest.mark.parametrize("name", READERS)
def test_corrupted_files(name: str, tmp_path: Path) -> None:
    fuzz(name, tmp_path / name, start=10**6, tries=TRIES)


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_many_corrupted_files(name: str, tmp_path: Path) -> None:
    assert MANY_TRIES * len(READERS) >= 100_000
    report = fuzz(name, tmp_path / name, tries=MANY_TRIES)
    assert report["tries"] == MANY_TRIES
    assert report["mutations"] > MANY_TRIES / 2
