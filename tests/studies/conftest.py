"""`compare` without training."""

from __future__ import annotations

import pytest
from fake_pool import FakePool

from tailmask import report
from tailmask.studies import study


@pytest.fixture
def pool(monkeypatch):
    pool = type("Pool", (FakePool,), {"made": []})
    monkeypatch.setattr(study, "Pool", pool)
    # The page has tests of its own, and takes a second or two to draw.
    monkeypatch.setattr(report, "write_report", lambda runs, target, **_: target.write_text("<html>"))
    return pool
