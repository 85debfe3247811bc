"""The same seed and number of threads give the same bytes, in whichever process; other threads need not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.readers import frame
from tailmask.runs import Run
from training.tiny import same_bytes, without_times


def train_apart(table: Path, folder: Path, *, hash_seed: int, threads: int) -> Run:
    """A run made by an interpreter of its own, in which sets of names have an order of their own."""
    arguments = [
        "train",
        str(table),
        "--labels",
        "tag_*",
        "--features",
        "age,colour",
        "--text",
        "note",
        "--folds",
        "1",
    ]
    arguments += ["--epochs", "2", "--threads", str(threads), "--out", str(folder)]
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-m", "tailmask", *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return Run(folder)


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.long), 2])
def test_two_processes_with_one_seed_give_the_same_bytes(tmp_path: Path, threads: int) -> None:
    table = tmp_path / "mine.csv"
    frame(200).write_csv(table)
    first, second = (
        train_apart(table, tmp_path / str(seed), hash_seed=seed, threads=threads) for seed in (1, 2)
    )
    assert first.config["sessions"][0]["threads"] == second.config["sessions"][0]["threads"] == threads
    assert same_bytes(first.folder, second.folder)
    assert without_times(first.history) == without_times(second.history)
    assert first.config["digest"] == second.config["digest"]
