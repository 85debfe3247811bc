"""A full disk, files that may not be read, two processes in one folder: a sentence, and nothing lost."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.processes import train_digits
from forked import run_process, start_process
from tailmask.runs import Run
from training.tiny import same_bytes

EPOCHS = 3


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The run as it is when nothing goes wrong."""
    folder = tmp_path_factory.mktemp("whole")
    assert run_process(train_digits, folder / "run", EPOCHS, folder / "log") == 0
    return folder / "run"


def goes_on(whole: Path, folder: Path, log: Path) -> bool:
    """Whether the same command, undisturbed, ends with the result of an undisturbed run."""
    assert run_process(train_digits, folder, EPOCHS, log) == 0
    assert not list(folder.glob("*.partial"))
    return same_bytes(whole, folder)


def assert_full(folder: Path, log: Path) -> None:
    text = log.read_text()
    assert f"tailmask: {folder} cannot be written to (No space left on device)" in text.splitlines()[-1]
    assert "Traceback" not in text


def fill_disk_at(number: int, folder: Path, log: Path) -> None:
    """Train while the disk becomes full: syncing fails from the given file on."""
    sync, calls = os.fsync, []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) >= number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    os.fsync = full
    train_digits(folder, EPOCHS, log)


@pytest.mark.parametrize("number", [1, 3, 7])
def test_a_disk_that_fills_up(whole: Path, tmp_path: Path, number: int) -> None:
    folder, log = tmp_path / "run", tmp_path / "log"
    assert run_process(fill_disk_at, number, folder, log) == 2
    assert_full(folder, log)
    assert goes_on(whole, folder, log)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=400k", "tmpfs", folder], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("a file system of its own can be mounted by root only")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_that_is_too_small(whole: Path, small_disk: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run_process(train_digits, small_disk / "run", EPOCHS, log) == 2
    assert_full(small_disk / "run", log)
    shutil.copytree(small_disk / "run", tmp_path / "run")  # to a larger disk
    assert goes_on(whole, tmp_path / "run", log)


@pytest.fixture(scope="module")
def without_power() -> list[str]:
    """What stands before a command so that permissions hold for it, as they don't for root."""
    if os.getuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("permissions do not hold for root, and setpriv, which gives its powers up, is not there")
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all"]


@pytest.mark.parametrize("case", ["table", "report", "train"])
def test_what_may_not_be_read_or_written(
    whole: Path, tmp_path: Path, without_power: list[str], case: str
) -> None:
    closed = tmp_path / ("closed.csv" if case == "table" else "closed")
    if case == "table":
        closed.write_text("size,tag_a\n1,0\n2,1\n")
    else:
        shutil.copytree(whole, closed)
    closed.chmod(0)
    arguments = {
        "table": ["data", "closed.csv", "--labels", "tag_a"],
        "report": ["report", "closed", "-o", "report.html"],
        "train": ["train", "digits", "--epochs", str(EPOCHS), "--out", "closed"],
    }[case]
    ended = subprocess.run(
        [*without_power, sys.executable, "-m", "tailmask", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    closed.chmod(0o755)
    assert ended.returncode == 2, ended.stderr
    (sentence,) = ended.stderr.splitlines()
    assert "Permission denied" in sentence
    assert "closed" in sentence
    assert list(tmp_path.iterdir()) == [closed]
    if case == "train":
        assert same_bytes(whole, closed)


def test_two_processes_in_one_folder(whole: Path, tmp_path: Path) -> None:
    folder, log = tmp_path / "run", tmp_path / "log"
    first = start_process(train_digits, folder, EPOCHS, tmp_path / "first")
    while not (folder / "run.json").exists():
        assert first.is_alive()
        time.sleep(0.01)
    os.kill(first.pid or 0, signal.SIGSTOP)  # so that it cannot end before the second one begins
    try:
        assert run_process(train_digits, folder, EPOCHS, log) == 2
    finally:
        os.kill(first.pid or 0, signal.SIGCONT)
    assert f"another process is training in {folder}" in log.read_text()
    first.join()
    assert first.exitcode == 0
    assert same_bytes(whole, folder)


def test_two_processes_begin_at_once(whole: Path, tmp_path: Path) -> None:
    logs = [tmp_path / "first", tmp_path / "second"]
    processes = [start_process(train_digits, tmp_path / "run", EPOCHS, log) for log in logs]
    for process in processes:
        process.join()
    assert sorted(process.exitcode or 0 for process in processes) in ([0, 2], [0, 0])  # one waits by chance
    assert Run(tmp_path / "run").is_complete
    assert same_bytes(whole, tmp_path / "run")
