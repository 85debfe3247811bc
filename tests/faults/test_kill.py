"""Processes killed with SIGKILL, at chosen and random moments: the run that goes on gives the same bytes."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch

from faults.processes import train_digits
from forked import run_process, start_process
from tailmask.runs import Run
from tailmask.training import train
from tailmask.training.tables.table_run import Checkpoints
from training.tiny import same_bytes, tiny_config, tiny_dataset, without_times

EPOCHS = 2
DIGITS_EPOCHS = 4
# run.json, a checkpoint an epoch, predictions.npz, decisions.json, model.safetensors, metrics.json
NUM_RENAMES = 1 + EPOCHS + 4


def train_until_rename(folder: Path, number: int, before: bool) -> None:
    """Train, and die just before or after the file of that number is renamed to its place."""
    torch.set_num_threads(1)
    Checkpoints.SECONDS_BETWEEN = 0.0
    replace, calls = Path.replace, []

    def dying(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == number and before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = replace(self, target)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    Path.replace = dying
    train(tiny_config(epochs=EPOCHS), folder, dataset=tiny_dataset())


def train_tiny(folder: Path) -> None:
    torch.set_num_threads(1)
    train(tiny_config(epochs=EPOCHS), folder, dataset=tiny_dataset())


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert run_process(train_tiny, folder) == 0
    return folder


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("number", range(1, NUM_RENAMES + 1))
def test_killed_around_each_rename(whole: Path, tmp_path: Path, number: int, before: bool) -> None:
    folder = tmp_path / "run"
    assert run_process(train_until_rename, folder, number, before) == -signal.SIGKILL
    epochs_done = min(EPOCHS, max(0, number - 1 - before))
    assert Run(folder).is_complete == (number == NUM_RENAMES and not before)
    assert run_process(train_tiny, folder) == 0
    assert same_bytes(whole, folder)
    assert without_times(Run(folder).history) == without_times(Run(whole).history)
    assert not [path for path in folder.iterdir() if path.name.endswith((".partial", ".ckpt"))]
    if (folder / "run.json").exists() and not (number == NUM_RENAMES and not before):
        assert Run(folder).config["sessions"][-1]["resumed_after_epoch"] == epochs_done


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> tuple[Path, float]:
    """A run of `tailmask train digits` that nobody disturbed, and how long it took."""
    folder = tmp_path_factory.mktemp("digits")
    assert run_process(int) == 0  # the first process waits for the server's imports, which no later one does
    began = time.monotonic()
    assert run_process(train_digits, folder / "run", DIGITS_EPOCHS, folder / "log") == 0
    return folder / "run", time.monotonic() - began


def kill_at_random(whole: Path, folder: Path, seed: int, *, longest: float) -> int:
    """Kill the same run again and again, until one process gets to the end; the number of kills.

    A process lives for at most `longest` seconds; after 50 kills, for as long as it needs.
    """
    moments = random.Random(seed)
    folder.mkdir()
    run, log, kills = folder / "run", folder / "log", 0
    while not Run(run).is_complete:
        history = run / "history.jsonl"
        done = len(history.read_text().splitlines()) if history.exists() else 0
        log.write_text("")
        seconds = moments.uniform(0, longest) if kills < 50 else None
        code = run_process(train_digits, run, DIGITS_EPOCHS, log, seconds=seconds)
        assert code in (0, -signal.SIGKILL)
        kills += code != 0
        resumed = [line for line in log.read_text().splitlines() if "resuming after epoch" in line]
        if resumed:  # a line of the history without its checkpoint is one too many
            (epoch,) = (int(line.split("epoch ")[1].split()[0]) for line in resumed)
            assert epoch in (done, done - 1)
    assert same_bytes(whole, run)
    assert without_times(Run(run).history) == without_times(Run(whole).history)
    sessions = [session["resumed_after_epoch"] for session in Run(run).config["sessions"]]
    assert sessions == sorted(sessions)
    return kills


def test_the_command_killed_after_an_epoch_ends_with_the_same_bytes(
    digits: tuple[Path, float], tmp_path: Path
) -> None:
    """As Lightning trains the digits; `test_killed_around_each_rename` does it to the loop for tables."""
    whole, _ = digits
    run, log = tmp_path / "run", tmp_path / "log"
    process = start_process(train_digits, run, DIGITS_EPOCHS, log)
    while process.is_alive() and not (run / "history.jsonl").exists():
        time.sleep(0.01)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert run_process(train_digits, run, DIGITS_EPOCHS, log) == 0
    assert same_bytes(whole, run)
    assert without_times(Run(run).history) == without_times(Run(whole).history)


@pytest.mark.long
def test_fifty_random_kills(digits: tuple[Path, float], tmp_path: Path) -> None:
    whole, seconds = digits
    kills = 0
    for seed in itertools.count(1):
        kills += kill_at_random(whole, tmp_path / str(seed), seed, longest=0.8 * seconds)
        if kills >= 50:
            break
    print(f"{kills} kills of {seed} runs")
