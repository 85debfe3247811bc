"""`compare` on a frame that a program holds."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import tailmask
from tailmask._util.messages import UserError


def test_a_frame_is_compared_and_kept_with_the_study(tmp_path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    frame = pl.DataFrame({"x": x, "big": (x > 0).astype(int), "small": (x < -0.5).astype(int)})
    options = {"labels": ["big", "small"], "methods": ["linear:C=1", "trees:trees=5", "ensemble"]}
    options |= {"seeds": 1, "folds": 2, "jobs": 1, "out": tmp_path / "study"}
    study = tailmask.compare(frame, **options)
    assert {method.name for method in study.comparison.methods} == {"linear:C=1", "trees:trees=5", "ensemble"}
    assert study.report_path.is_file()
    with pytest.raises(UserError, match="other data"):
        tailmask.compare(frame.with_columns(pl.col("x") + 1), **options)
