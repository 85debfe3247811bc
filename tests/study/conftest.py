"""`reproduce` without training."""

from __future__ import annotations

import pytest
from reproducing import REQUEST

from tailmask.study import reproduce
from tailmask.study import reproduction as module


@pytest.fixture
def make(tmp_path, monkeypatch):
    """`reproduce` on runs that are there, in place of training."""
    monkeypatch.setattr(module, "_make", lambda *_: [])

    def make_result(target, request=REQUEST, **settings):
        return reproduce(target, request, out=tmp_path / "out", runs=tmp_path / "runs", **settings)

    return make_result
