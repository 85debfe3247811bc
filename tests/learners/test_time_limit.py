"""Networks on one split end when they would miss the deadline, and go on with more time."""

from __future__ import annotations

import numpy as np
import pytest

from tailmask.learners import time_limit
from tailmask.learners.cross_fitted_run import make_run
from tailmask.learners.protocol import Deadline
from tailmask.learners.time_limit import OutOfTimeError
from tailmask.runs import Run, configure
from tailmask.training.progress import Progress


@pytest.fixture(params=["table", "images"])
def plain_run(request, tmp_path):
    """A function that configures a run of so many epochs, by the small loop and by Lightning."""
    rng = np.random.default_rng(0)
    y = (rng.random((300, 2)) < [0.4, 0.2]).astype(np.uint8)
    x = rng.normal(size=(300, 4)) if request.param == "table" else rng.integers(0, 256, (300, 8, 8), np.uint8)
    np.savez(tmp_path / "data.npz", X=x, Y=y)

    def configured(epochs):
        return configure(str(tmp_path / "data.npz"), "bce", epochs=epochs)

    return configured


def test_a_run_that_would_not_end_is_stopped_and_can_be_resumed(plain_run, tmp_path, monkeypatch):
    monkeypatch.setattr(time_limit, "TRIAL_SECONDS", 2.0)
    with pytest.raises(OutOfTimeError, match="left"):
        make_run(plain_run(5000), tmp_path / "run", deadline=Deadline.after(3.0))
    has_ended = bool(Run(tmp_path / "run").history)  # on a slow machine not even one epoch
    assert has_ended == bool(list((tmp_path / "run").glob("checkpoint*")))
    with pytest.raises(OutOfTimeError, match="left"):
        make_run(plain_run(3), tmp_path / "other", deadline=Deadline.after(0))
    assert not (tmp_path / "other").exists()
    run = make_run(plain_run(3), tmp_path / "other", deadline=Deadline.after(600))
    assert run.is_complete
    assert make_run(plain_run(3), tmp_path / "other", deadline=Deadline.after(0)).is_complete


def test_an_estimate_counts_only_what_this_call_has_trained(monkeypatch):
    clock = iter([0.0, 100.0, 140.0])
    monkeypatch.setattr(time_limit.time, "monotonic", lambda: next(clock, 140.0))
    limit = time_limit.TimeLimit(Progress(), Deadline(end=340.0))
    limit.begin(done=50, total=60)
    limit.step(
        epoch=52, share=1.0, loss=0.1, num_samples=1
    )  # 40 s for 2 epochs: 160 s for 8, and 200 are left
    monkeypatch.setattr(time_limit.time, "monotonic", lambda: 190.0)
    with pytest.raises(OutOfTimeError, match="about 360 s, and 150 s"):
        limit.record({"epoch": 52})
