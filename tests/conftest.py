"""Shared by all tests: one torch thread a worker, fixed random numbers, and the real data where it is."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import settings

collect_ignore_glob = ["*conftest.py"]  # fixtures: no doctests are looked for there

settings.register_profile("tailmask", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("tailmask")


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of garbage collections, which Trainers and exporters ask for.

    Looking through it took half of the time of a small Trainer.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Ctrl-C works, also in a suite started in the background, where it is ignored and handed down so."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _reproducible() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real data sets, named by TAILMASK_DATA."""
    folder = os.environ.get("TAILMASK_DATA")
    if not folder:
        pytest.skip("set TAILMASK_DATA to a folder with the real data sets")
    return Path(folder)
