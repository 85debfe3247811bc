"""A study that is interrupted, or loses a worker, ends with the numbers of one that was not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ARGUMENTS = ["compare", "--epochs", "30", "--seeds", "1", "--jobs", "2", "--out", "study"]


def start(folder):
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tailmask", *ARGUMENTS]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_epochs(folder, number):
    """Until both runs have come so far."""
    deadline = time.monotonic() + 300
    histories = [
        folder / "study" / "runs" / f"{method}_seed=0" / "history.jsonl" for method in ("bce", "plm")
    ]
    while time.monotonic() < deadline:
        if all(path.exists() and len(path.read_text().splitlines()) >= number for path in histories):
            return
        time.sleep(0.05)
    raise AssertionError(f"no {number} epochs in time")


def workers_of(process):
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(child) for child in children]


def is_alive(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def metrics(folder):
    return [
        json.loads((folder / "study" / "runs" / f"{method}_seed=0" / "metrics.json").read_text())
        for method in ("bce", "plm")
    ]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_an_interrupted_study_goes_on_to_the_same_numbers(tmp_path):
    undisturbed = start(tmp_path / "a")
    _, err = undisturbed.communicate(timeout=600)
    assert undisturbed.returncode == 0, err

    interrupted = start(tmp_path / "b")
    wait_for_epochs(tmp_path / "b", 3)
    workers = workers_of(interrupted)
    assert len(workers) == 2
    interrupted.send_signal(signal.SIGINT)
    _, err = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert "to resume: tailmask compare" in err
    assert not any(map(is_alive, workers))
    assert not (tmp_path / "b" / "study" / "report.html").exists()

    # One worker is killed, as by a system that is out of memory: its run fails, the other one is made.
    robbed = start(tmp_path / "b")
    wait_for_epochs(tmp_path / "b", 5)
    os.kill(workers_of(robbed)[0], signal.SIGKILL)
    out, err = robbed.communicate(timeout=600)
    assert robbed.returncode == 2
    assert "its process was killed" in err

    last = start(tmp_path / "b")
    out, err = last.communicate(timeout=600)
    assert last.returncode == 0, err
    assert "resuming after epoch" in err
    assert "report in study/report.html" in out.splitlines()
    assert metrics(tmp_path / "b") == metrics(tmp_path / "a")
