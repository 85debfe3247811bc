"""The provenance of results: machine, package versions and commit."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from tailmask import __version__

__all__ = ["environment", "provenance"]

_PACKAGES = ("torch", "numpy", "pytorch-lightning", "torchmetrics", "scikit-learn", "scipy", "safetensors")


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
    """True if the checkout's code differs from its commit."""
    root = Path(__file__).parents[3]
    command = ["git", "-C", str(root), "status", "--porcelain", "--", "src"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603 (fixed words)
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


def environment() -> dict[str, Any]:
    """Versions, commit and machine, as a run records them."""
    versions = {"tailmask": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "versions": versions,
        "commit": _commit(),
        "machine": f"{platform.system()} {platform.machine()}",
        "command": ["tailmask", *sys.argv[1:]] if Path(sys.argv[0]).name == "tailmask" else None,
    }


def _commit() -> str | None:
    """The commit of the checkout that tailmask runs from; None for an installed package."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(root), "rev-parse", "HEAD"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603 (fixed words)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() or None
