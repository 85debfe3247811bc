"""`reproduce` without training."""

from __future__ import annotations

import pytest
from reproducing import REQUEST, IdlePool

from tailmask.paper import reproduce, reproduction


@pytest.fixture
def make(tmp_path, monkeypatch):
    """`reproduce` on runs that are there, in place of training."""
    monkeypatch.setattr(reproduction, "Pool", IdlePool)

    def make_result(item, request=REQUEST, **settings):
        return reproduce(item, request, out=tmp_path / "out", runs=tmp_path / "runs", **settings)

    return make_result
