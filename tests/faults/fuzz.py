"""Readers driven with corrupted files, each try a function of the reader's name and a number.

    python tests/faults/fuzz.py [--tries 8000] [--jobs 2] [READER ...]

A process of its own for each reader, so that nothing can hide: a try that takes too long ends it, its
addresses are limited, a rise of its resident memory is measured, and an audit hook hears of every file
written, process started, connection made and global unpickled. Corrupt files that broke something are kept.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.mutations import SHARE_OF_MUTATIONS, mutate, nonsense
from tailmask._util.messages import explain

SECONDS = 20.0  # of one try, on a machine that others use as well
GIGABYTE = 2**30
ADDRESSES = 4 * GIGABYTE  # beyond those of the process before the first try
RISE = GIGABYTE // 2  # of resident memory, over all tries
MOST_FAILURES = 20

# Forked from a server that has imported everything, a process starts in moments.
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["faults.readers", "tailmask.training.engine"])


class Watch:
    """Hears what the interpreter is asked to do while a corrupt file is read."""

    _SUSPECT = (
        *(
            "os.mkdir",
            "os.rename",
            "os.remove",
            "os.rmdir",
            "os.symlink",
            "os.link",
            "os.chmod",
            "os.truncate",
        ),
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect"),
        "pickle.find_class",
    )

    def __init__(self) -> None:
        self.heard: list[str] | None = None
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.heard is None:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and path != os.devnull:
                self.heard.append(f"open {path} {mode}")
        elif event in self._SUSPECT:
            self.heard.append(f"{event} {arguments}"[:200])


def is_documented(error: BaseException) -> bool:
    """Whether an error is what users are promised: one sentence, of tailmask's own."""
    if not isinstance(error, ValueError) or not str(error) or "\n" in str(error):
        return False
    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    return explain(error) is not None or str(last.f_globals.get("__name__")).startswith("faults.")


def corrupt(name: str, number: int, valid: dict[str, bytes]) -> tuple[str, bytes, bool]:
    """Which file is corrupted in a try, what becomes of it, and whether that is a mutation."""
    draws = random.Random(f"{name} {number}")
    target = draws.choice(list(valid))
    if draws.random() < SHARE_OF_MUTATIONS:
        return target, mutate(valid[target], valid[draws.choice(list(valid))], draws), True
    return target, nonsense(valid[target], draws), False


def drive(name: str, folder: Path, start: int, tries: int) -> None:
    """Drive a reader, and leave a line for each try, told before and after it, in `folder / "log"`."""
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    import torch

    from faults.readers import READERS

    torch.set_num_threads(1)
    reader, scratch = READERS[name], folder / f"files-{start}"
    scratch.mkdir(parents=True)
    os.chdir(scratch)
    os.dup2(os.open(folder / f"stderr-{start}", os.O_WRONLY | os.O_CREAT), sys.stderr.fileno())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # what takes too long ends the process, in C code too
    faulthandler.register(signal.SIGALRM, chain=True)
    faulthandler.enable()
    targets = reader.make(scratch)
    valid = {target: (scratch / target).read_bytes() for target in targets}
    for target in targets:
        reader.read(scratch / target)  # valid files are taken, and what is imported late is imported
    present = set(scratch.rglob("*"))
    watch = Watch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    addresses = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
    failures = 0
    with (folder / "log").open("a", buffering=1) as log:
        for number in range(start, start + tries):
            target, content, mutated = corrupt(name, number, valid)
            (scratch / target).write_bytes(content)
            print(json.dumps({"try": number, "mutated": mutated}), file=log)
            watch.heard, problem, taken = [], "", False
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            began = time.perf_counter()
            try:
                reader.read(scratch / target)
                taken = True
            except BaseException as error:  # any error is judged
                if not is_documented(error):
                    problem = "".join(traceback.format_tb(error.__traceback__)[-6:])
                    problem += f"{type(error).__name__}: {error}"[:500]
            seconds = time.perf_counter() - began
            signal.setitimer(signal.ITIMER_REAL, 0)
            heard, watch.heard = watch.heard, None
            if heard or problem:
                problem += str(heard[:5])
                (folder / f"{number}-{target}").write_bytes(content)
                failures += 1
            rise = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
            outcome = {"done": number, "taken": taken, "seconds": seconds, "problem": problem, "rise": rise}
            print(json.dumps(outcome), file=log)
            (scratch / target).write_bytes(valid[target])
            if failures >= MOST_FAILURES:
                break
    left = sorted(str(path) for path in set(scratch.rglob("*")) - present)
    assert not left, f"reading {name} left {left[:5]}"


def fuzz(name: str, folder: Path, *, start: int = 0, tries: int) -> dict[str, Any]:
    """Drive a reader in a process of its own; what came of it, or an AssertionError that says what broke.

    Polars ends the process where a damaged Parquet file has it ask for more memory than there is. That is
    counted, and the tries after it are made in a new process.
    """
    folder.mkdir(parents=True)
    log, first, aborts = folder / "log", start, 0
    began = time.perf_counter()
    while True:
        process = context.Process(target=drive, args=(name, folder, first, start + tries - first))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        errors = (folder / f"stderr-{first}").read_text(errors="replace")
        assert process.exitcode == -signal.SIGABRT, (
            f"{name}: {process.exitcode} in {folder}: {errors[-3000:]}"
        )
        assert name == "parquet", f"{name} was aborted in {folder}: {errors[-3000:]}"
        assert "memory allocation of" in errors, f"{name} was aborted in {folder}: {errors[-3000:]}"
        aborts += 1
        first = list(_lines(log))[-1]["try"] + 1
    lines = list(_lines(log))
    done = [line for line in lines if "done" in line]
    broken = [line for line in done if line["problem"]]
    assert not broken, (
        f"{name}: {len(broken)} of {len(done)} tries broke something, kept in {folder}, the first, "
        f"{broken[0]['done']}:\n{broken[0]['problem']}"
    )
    rise = max((line["rise"] for line in done), default=0)
    assert rise < RISE, f"reading {name} took {rise / 2**20:.0f} MB more"
    return {
        "reader": name,
        "tries": sum("try" in line for line in lines),
        "mutations": sum(line.get("mutated", False) for line in lines),
        "taken": sum(line["taken"] for line in done),
        "aborts": aborts,
        "slowest": max(line["seconds"] for line in done),
        "rise": rise,
        "seconds": time.perf_counter() - began,
    }


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in log.read_text().splitlines())


def main() -> None:
    from faults.readers import READERS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("readers", nargs="*", default=list(READERS), metavar="READER")
    parser.add_argument("--tries", type=int, default=8000, help="tries of each reader")
    parser.add_argument("--start", type=int, default=0, help="number of the first try")
    parser.add_argument("--jobs", type=int, default=2, help="readers that are driven at once")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="fuzz-"))

    def run(name: str) -> dict[str, Any] | str:
        try:
            return fuzz(name, root / name, start=options.start, tries=options.tries)
        except AssertionError as error:
            return str(error)

    began, totals, failed = time.perf_counter(), [], False
    with ThreadPoolExecutor(options.jobs) as pool:
        for report in pool.map(run, options.readers):
            if isinstance(report, str):
                failed = True
                print(report, flush=True)
                continue
            totals.append(report)
            taken, rise = report["taken"] / report["tries"], report["rise"] / 2**20
            print(
                f"{report['reader']:<10} {report['tries']:>6} tries, {taken:>3.0%} taken, "
                f"{report['seconds']:.0f} s, slowest {report['slowest']:.2f} s, +{rise:.0f} MB, "
                f"{report['aborts']} aborts of polars",
                flush=True,
            )
    tries, mutations = sum(each["tries"] for each in totals), sum(each["mutations"] for each in totals)
    print(f"{tries} tries, {mutations} of them mutations of valid files, {time.perf_counter() - began:.0f} s")
    if failed:
        raise SystemExit(f"kept in {root}")
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
