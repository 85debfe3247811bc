"""Processes killed with SIGKILL, at chosen and random moments: the run that goes on gives the same bytes."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny import same_bytes, tiny_config, tiny_dataset, without_times

from tailmask.training import Run, train

EPOCHS = 2
# run.json, a checkpoint an epoch, predictions.npz, model.safetensors, metrics.json
NUM_RENAMES = 1 + EPOCHS + 3

# Forked from a server that has imported everything, a process starts in moments.
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tailmask.training.engine", "tailmask.cli.train"])


def run_process(target: Callable[..., None], *arguments: object, seconds: float | None = None) -> int:
    """Exit code of a process, which is killed after some seconds unless it has ended."""
    process = context.Process(target=target, args=arguments)
    process.start()
    process.join(seconds)
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    return process.exitcode


def train_until_rename(folder: Path, number: int, before: bool) -> None:
    """Train, and die just before or after the file of that number is renamed to its place."""
    torch.set_num_threads(1)
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


def command(*arguments: str, stderr: Path) -> None:
    """`tailmask …` in this process, its error stream in a file."""
    descriptor = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, sys.stderr.fileno())
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    from tailmask.cli import main

    sys.exit(main(list(arguments)))


def train_digits(folder: Path, epochs: int, stderr: Path) -> None:
    arguments = ["train", "digits", "--epochs", str(epochs), "--threads", "1", "--out", str(folder)]
    command(*arguments, stderr=stderr)


def kill_at_random(tmp_path: Path, *, epochs: int, num_kills: int, longest: float) -> int:
    """Kill `tailmask train digits` up to `num_kills` times, then let it end; the number of kills.

    A process lives for up to `longest` times as long as the whole run takes.
    """
    moments = random.Random(0)
    whole, folder, log = tmp_path / "whole", tmp_path / "killed", tmp_path / "log"
    began = time.monotonic()
    assert run_process(train_digits, whole, epochs, log) == 0
    longest *= time.monotonic() - began
    kills = 0
    while not Run(folder).is_complete:
        history = folder / "history.jsonl"
        done = len(history.read_text().splitlines()) if history.exists() else 0
        log.write_text("")
        seconds = moments.uniform(0, longest) if kills < num_kills else None
        code = run_process(train_digits, folder, epochs, log, seconds=seconds)
        assert code in (0, -signal.SIGKILL)
        kills += code != 0
        resumed = [line for line in log.read_text().splitlines() if "resuming after epoch" in line]
        if resumed:  # a line of the history without its checkpoint is one too many
            (epoch,) = (int(line.split("epoch ")[1].split()[0]) for line in resumed)
            assert epoch in (done, done - 1)
    assert same_bytes(whole, folder)
    assert without_times(Run(folder).history) == without_times(Run(whole).history)
    sessions = json.loads((folder / "run.json").read_text())["sessions"]
    assert [session["resumed_after_epoch"] for session in sessions] == sorted(
        session["resumed_after_epoch"] for session in sessions
    )
    return kills


def test_the_command_killed_at_random_moments_ends_with_the_same_bytes(tmp_path: Path) -> None:
    assert kill_at_random(tmp_path, epochs=4, num_kills=4, longest=0.8) >= 1


@pytest.mark.long
def test_fifty_random_kills(tmp_path: Path) -> None:
    assert kill_at_random(tmp_path, epochs=40, num_kills=50, longest=0.2) >= 20
