"""A full disk, files that may not be read, two processes in one folder: a sentence, and nothing lost."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.processes import command, run_process, start_process, train_digits
from training.tiny import same_bytes

from tailmask.training import Run

EPOCHS = 3
NOBODY = 65534


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
    assert log.read_text().splitlines()[-1] == "tailmask: No space left on device"
    assert "Traceback" not in log.read_text()
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
    last = log.read_text().splitlines()[-1]
    assert last.startswith("tailmask: No space left on device")
    assert "Traceback" not in log.read_text()
    shutil.copytree(small_disk / "run", tmp_path / "run")  # to a larger disk
    assert goes_on(whole, tmp_path / "run", log)


def as_nobody(arguments: list[str], log: Path) -> None:
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    command(*arguments, stderr=log)


@pytest.fixture
def anyones() -> Iterator[Path]:
    """A folder that every user may enter and write to, as pytest's own is not."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_files_that_may_not_be_read_or_written(whole: Path, anyones: Path) -> None:
    log = anyones / "log"
    log.touch()
    log.chmod(0o666)
    table = anyones / "mine.csv"
    table.write_text("size,tag_a\n1,0\n2,1\n")
    table.chmod(0)
    closed = anyones / "run"
    shutil.copytree(whole, closed)
    closed.chmod(0o700)
    for arguments, path in (
        (["data", str(table), "--labels", "tag_a"], table),
        (["report", str(closed), "-o", str(anyones / "report.html")], closed),
        (["train", "digits", "--epochs", "3", "--out", str(closed)], closed),
        (["train", "digits", "--epochs", "3", "--out", str(closed / "inner")], closed),
    ):
        log.write_text("")
        assert run_process(as_nobody, arguments, log) == 2
        (sentence,) = log.read_text().splitlines()
        assert "Permission denied" in sentence
        assert str(path) in sentence
    assert sorted(anyones.iterdir()) == sorted([log, table, closed])


def test_two_processes_in_one_folder(whole: Path, tmp_path: Path) -> None:
    folder, log = tmp_path / "run", tmp_path / "log"
    first = start_process(train_digits, folder, EPOCHS, tmp_path / "first")
    while not (folder / "run.json").exists():
        assert first.is_alive()
        time.sleep(0.01)
    assert run_process(train_digits, folder, EPOCHS, log) == 2
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
