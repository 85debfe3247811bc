"""Where a study's numbers come from: the machine, the versions and the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from tailmask.training.folder import environment

__all__ = ["provenance"]


def provenance() -> dict[str, Any]:
    """Commit, versions and machine of a result, as plain JSON.

    >>> sorted(provenance())
    ['commit', 'machine', 'versions']
    """
    found = environment()
    commit = found["commit"]
    if commit is not None and _has_changes():
        commit += ", with changes"
    machine = {"cpu": _cpu(), "cores": os.cpu_count() or 1, "system": found["machine"]}
    return {"commit": commit, "machine": machine, "versions": found["versions"]}


def _has_changes() -> bool:
    """Whether the checkout's code differs from its commit."""
    root = Path(__file__).parents[3]
    command = ["git", "-C", str(root), "status", "--porcelain", "--", "src"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return False
    return bool(result.stdout.strip())


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
