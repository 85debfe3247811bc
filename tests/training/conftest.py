"""What tests of runs share: small data, and one run that is done."""

from __future__ import annotations

import pytest
import torch
from tiny import tiny_config, tiny_dataset

from tailmask.runs import Run
from tailmask.training import train
from tailmask.training.progress import StepReports


@pytest.fixture(scope="module")
def dataset():
    return tiny_dataset()


@pytest.fixture(scope="module")
def finished(dataset, tmp_path_factory) -> Run:
    torch.set_num_threads(1)
    return train(tiny_config(), tmp_path_factory.mktemp("finished") / "run", dataset=dataset)


@pytest.fixture(autouse=True)
def _every_step(monkeypatch) -> None:
    """Tell the progress of every step, however short."""
    monkeypatch.setattr(StepReports, "SECONDS_BETWEEN_STEPS", 0.0)
