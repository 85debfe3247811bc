"""Memory under load: many runs in one study, a million rows, twenty thousand classes.

    python benchmarks/load.py [compare] [rows] [classes]

Each measures a public command on generated files, from outside: the resident memory of the command and of all
processes that it starts. It must stay below 8 GB, and must not grow from run to run.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

GIGABYTE = 2**30
LIMIT = 8 * GIGABYTE
SECONDS_BETWEEN_LOOKS = 0.1
FLAT = 1.1  # the last runs of a study may need this many times the memory of the first ones


def resident(root: int) -> int:
    """Resident memory of a process and all its descendants, in bytes."""
    parents, sizes = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:  # it has just ended
            continue
        pid = int(status.parent.name)
        parents[pid] = int(fields["PPid"])
        sizes[pid] = int(fields.get("VmRSS", "0").split()[0]) * 1024
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(sizes.get(pid, 0) for pid in family)


def watch(arguments: list[str], look: Callable[[int], None]) -> float:
    """Run `tailmask …` and return its seconds. Meanwhile `look` is called with its resident memory."""
    print("$", shlex.join(["tailmask", *arguments]), flush=True)
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "tailmask", *arguments], stdout=subprocess.DEVNULL)
    while process.poll() is None:
        look(resident(process.pid))
        time.sleep(SECONDS_BETWEEN_LOOKS)
    if process.returncode:
        raise SystemExit(f"the command failed with exit code {process.returncode}")
    return time.perf_counter() - began


def peak(arguments: list[str]) -> None:
    """Run `tailmask …` and print its largest resident memory."""
    seen = [0]
    seconds = watch(arguments, seen.append)
    print(f"  peak {max(seen) / GIGABYTE:.2f} GB, {seconds:.0f} s", flush=True)
    if max(seen) > LIMIT:
        raise SystemExit("the peak is above 8 GB")


def csr_parts(name: str, matrix: sparse.csr_array) -> dict[str, NDArray[np.generic]]:
    """The arrays of a sparse matrix, named as in .npz files."""
    return {
        f"{name}_data": matrix.data,
        f"{name}_indices": matrix.indices,
        f"{name}_indptr": matrix.indptr,
        f"{name}_shape": np.array(matrix.shape),
    }


def long_tailed(rows: int, columns: int, each: int) -> sparse.csr_array:
    """A sparse matrix of ones, up to `each` per row. The first columns are by far the most frequent."""
    generator = np.random.default_rng(0)
    places = (columns * generator.random(rows * each) ** 3).astype(np.int64)
    numbers = np.arange(rows).repeat(each)
    matrix = sparse.csr_array((np.ones(rows * each, dtype=np.int8), (numbers, places)), shape=(rows, columns))
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def write_sparse(path: Path, *, rows: int, features: int, classes: int) -> None:
    """Write a file with up to ten features and three labels per row, both sparse; labels are random."""
    inputs = long_tailed(rows, features, 10).astype(np.float32)
    arrays: dict[str, Any] = csr_parts("X", inputs) | csr_parts("Y", long_tailed(rows, classes, 3))
    np.savez(path, **arrays)


def measure_compare(folder: Path) -> None:
    """Measure forty runs, two at a time: the memory during each ten of them."""
    write_sparse(folder / "small.npz", rows=2000, features=100, classes=20)
    study = folder / "study"
    by_ten: dict[int, list[int]] = {}

    def look(size: int) -> None:
        done = len(list(study.glob("**/metrics.json")))
        if 4 <= done < 40:  # after the workers' first runs, and before the analysis
            by_ten.setdefault(done // 10, []).append(size)

    arguments = ["compare", str(folder / "small.npz"), "--methods", "bce", "plm", "--seeds", "20"]
    seconds = watch([*arguments, "--epochs", "2", "--jobs", "2", "--out", str(study)], look)
    means = [float(np.mean(sizes)) for _, sizes in sorted(by_ten.items())]
    listed = ", ".join(f"{mean / 2**20:.0f}" for mean in means)
    print(f"  MB during runs 5-10, 11-20, 21-30 and 31-40: {listed}; {seconds:.0f} s", flush=True)
    if means[-1] > FLAT * means[1]:
        raise SystemExit("the memory grows from run to run")


def measure_rows(folder: Path) -> None:
    """Measure a million rows with a hundred sparse features and a hundred sparse labels."""
    write_sparse(folder / "rows.npz", rows=10**6, features=100, classes=100)
    peak(_training(folder, "rows", batch_size=512))


def measure_classes(folder: Path) -> None:
    """Measure twenty thousand classes."""
    write_sparse(folder / "classes.npz", rows=20_000, features=2000, classes=20_000)
    peak(_training(folder, "classes", batch_size=256))


def _training(folder: Path, name: str, *, batch_size: int) -> list[str]:
    arguments = ["train", str(folder / f"{name}.npz"), "--epochs", "1", "--threads", "2"]
    return [*arguments, "--set", f"schedule.batch_size={batch_size}", "--out", str(folder / name)]


MEASURES = {"compare": measure_compare, "rows": measure_rows, "classes": measure_classes}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measures", nargs="*", choices=[*MEASURES, []], help="what to measure; default: all")
    for name in parser.parse_args().measures or MEASURES:
        with tempfile.TemporaryDirectory() as folder:
            MEASURES[name](Path(folder))


if __name__ == "__main__":
    main()
