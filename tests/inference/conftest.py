"""Runs that all tests of prediction and export share."""

from __future__ import annotations

from pathlib import Path

import pytest
from finished_runs import train_digits, train_single, train_table


@pytest.fixture(scope="session")
def table_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_table(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_digits(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="session")
def single_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_single(tmp_path_factory.mktemp("single"))
