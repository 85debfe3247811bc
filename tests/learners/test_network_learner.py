"""Networks as learners: which rows of a fold they train on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tailmask.data.rows import Rows
from tailmask.learners.network_learner import NetworkLearner
from tailmask.runs import configure
from tailmask.runs.reader import Run

FIELDS = ("model.hidden=[4]", "model.members=2")


@pytest.mark.parametrize(
    ("method", "expected"),
    [("bce", 40), ("plm", 40), ("plm:adapt=prevalence", 36), ("plm:statistics=validation", 36)],
)
def test_rows_are_held_out_only_if_they_move_ratios(method: str, expected: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 3))
    rows = Rows(features, features[:, :2] > 0)
    config = configure("yeast.arff", method, epochs=1, recipe="table-members", fields=FIELDS)
    NetworkLearner(config, classes=("a", "b")).fit(rows, seed=0, workdir=tmp_path / "run")
    assert [record["samples"] for record in Run(tmp_path / "run").history] == [expected]
