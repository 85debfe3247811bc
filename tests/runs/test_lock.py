"""The lock of a run folder: one process at a time, and nothing left behind by a killed one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tailmask._util.messages import UserError
from tailmask.runs.lock import locked

HOLD = """
import sys, time
from pathlib import Path
from tailmask.runs.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLD, folder], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(UserError, match="another process"), locked(folder):
            pass
        process.kill()
    with locked(folder):
        pass


def test_an_error_inside_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path):
        pass
