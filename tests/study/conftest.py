"""`reproduce` and `compare` without training."""

from __future__ import annotations

import pytest
from fake_pool import FakePool
from reproducing import REQUEST

from tailmask import report
from tailmask.study import comparing, reproduce
from tailmask.study import reproduction as module


@pytest.fixture
def make(tmp_path, monkeypatch):
    """`reproduce` on runs that are there, in place of training."""
    monkeypatch.setattr(module, "_make", lambda *_: [])

    def make_result(target, request=REQUEST, **settings):
        return reproduce(target, request, out=tmp_path / "out", runs=tmp_path / "runs", **settings)

    return make_result


@pytest.fixture
def pool(monkeypatch):
    pool = type("Pool", (FakePool,), {"made": []})
    monkeypatch.setattr(comparing, "Pool", pool)
    # The page has tests of its own, and takes a second or two to draw.
    monkeypatch.setattr(report, "write_report", lambda runs, target, **_: target.write_text("<html>"))
    return pool
