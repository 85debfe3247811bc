"""Worker processes that check and make the runs of a study in parallel and share the cores."""

from __future__ import annotations

import queue
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tailmask._util.cores import num_cores, num_threads
from tailmask._util.messages import UserError, check_count, listing, require
from tailmask._util.serialization import from_mapping
from tailmask.data.facts import DataError, DataFacts
from tailmask.runs import Run, Setting
from tailmask.studies.planned_runs import PlannedRun
from tailmask.studies.worker_process import Events, Worker, num_gpus

__all__ = ["Failure", "Listener", "Pool", "check_extras", "choose_jobs", "num_missing", "raise_failures"]

# Each worker holds a copy of torch and of the data: more than this number needs --jobs.
MOST_JOBS = 8
SECONDS_TO_STOP = 10.0


@dataclass(frozen=True)
class Failure:
    """A run that failed, and a sentence that says why."""

    run: PlannedRun
    sentence: str


def check_extras() -> None:
    """Raise a `UserError` that says what to install if a package that the workers need is missing."""
    for module in ("pytorch_lightning", "matplotlib", "jinja2", "safetensors", "sklearn"):
        if find_spec(module) is None:
            require(module, extra="cli")


def raise_failures(failures: Sequence[Failure]) -> None:
    """Raise a `UserError` that names the failed runs, if there are any."""
    if failures:
        reasons = listing((f"{failure.run.label}: {failure.sentence}" for failure in failures), limit=3)
        number = f"{len(failures)} run{'s' if len(failures) > 1 else ''}"
        raise UserError(f"the result has only the other runs, because {number} failed: {reasons}")


class Listener:
    """Receives the progress of a study and shows nothing; all calls come from the calling thread."""

    def prepare(self) -> None:
        """The study begins to load the data and to check everything."""

    def begin(self, runs: Sequence[PlannedRun], *, complete: int) -> None:
        """The study begins to make the runs; `complete` of them are already complete."""

    def step(self, run: PlannedRun, *, epochs: float, total: int, loss: float | None) -> None:
        """A run has finished `epochs` of `total` epochs."""

    def note(self, run: PlannedRun | None, text: str) -> None:
        """A note about a run, or about the data if `run` is None."""

    def finished(self, run: PlannedRun, *, sentence: str | None) -> None:
        """A run is complete, or has failed for the reason in `sentence`."""

    def end(self) -> None:
        """All runs are made, or the study was interrupted."""

    def analysed(self, done: int, total: int) -> None:
        """`done` of `total` finished runs have been read and compared."""


def choose_jobs(asked: int | None, *, num_runs: int) -> int:
    """The number of runs at a time: the requested one, else one per GPU, else one per core, at most 8."""
    check_count("jobs", asked)
    return min(asked or min(num_gpus() or num_cores(), MOST_JOBS), num_runs)


def num_missing(runs: Iterable[PlannedRun]) -> int:
    """The number of runs that are not complete."""
    return sum(not Run(run.folder).is_complete for run in runs)


class Pool:
    """Worker processes, started with the first task and kept until the `with` block ends.

    There are `jobs` of them, but not more than `num_runs`. They share the cores evenly. A run's number of
    threads depends only on `jobs`, not on the number of runs that are left. So a resumed study gives the same
    numbers. An exception or an interrupt stops the workers; their runs can be resumed.
    """

    def __init__(self, jobs: int, *, num_runs: int | None = None) -> None:
        self.num_workers = max(1, jobs if num_runs is None else min(jobs, num_runs))
        self.threads = num_threads(num_cores() // jobs)
        self._events: Events = queue.Queue()
        self._workers: list[Worker] = []
        self._logs = Path(tempfile.mkdtemp(prefix="tailmask-"))
        self._notes: list[str] = []  # about the data, received before there was a listener
        self._has_broken = False

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self._workers:
            worker.stop()
        deadline = time.monotonic() + SECONDS_TO_STOP
        for worker in self._workers:
            worker.end(deadline)
        if not self._has_broken:
            shutil.rmtree(self._logs, ignore_errors=True)

    def facts(self, settings: Iterable[Setting]) -> dict[Setting, DataFacts]:
        """Facts about the data of the settings; raises a `DataError` if data cannot be loaded."""
        return self._check({setting: [] for setting in settings})

    def check(self, runs: Sequence[PlannedRun]) -> dict[Setting, DataFacts]:
        """Load the data, build every method and check every folder; raises an error if a run cannot work."""
        by_setting: dict[Setting, list[PlannedRun]] = {}
        for run in runs:
            by_setting.setdefault(run.setting.asked, []).append(run)
        return self._check(by_setting)

    def _check(self, runs: Mapping[Setting, Sequence[PlannedRun]]) -> dict[Setting, DataFacts]:
        tasks = [
            {
                "kind": "check",
                "data": setting.data,
                "options": setting.options.to_json(),
                "runs": [{"config": run.config.to_task(), "folder": str(run.folder)} for run in planned],
            }
            for setting, planned in runs.items()
        ]
        facts = {}
        for setting, result in zip(runs, self._dispatch(tasks, self._keep_note), strict=True):
            if (sentence := result.get("text")) is not None:
                raise DataError(sentence) if result.get("of_data") else UserError(sentence)
            facts[setting] = from_mapping(DataFacts, result["answer"])
        return facts

    def make(
        self,
        runs: Sequence[PlannedRun],
        listener: Listener | None = None,
        *,
        arms: Mapping[PlannedRun, Sequence[Path]] | None = None,
    ) -> list[Failure]:
        """Make the incomplete runs and return the failures. A run that fails does not stop the others.

        A run in `arms` is an ensemble of the runs in these folders. It is made again if they have changed.
        """
        arms, listener = arms or {}, listener or Listener()
        waiting = [run for run in runs if run in arms or not Run(run.folder).is_complete]
        listener.begin(runs, complete=len(runs) - len(waiting))
        for text in self._notes:
            listener.note(None, text)

        def hear(number: int, event: dict[str, Any]) -> None:
            run = waiting[number]
            match event:
                case {"event": "step", "epochs": epochs, "total": total, "loss": loss}:
                    listener.step(run, epochs=epochs, total=total, loss=loss)
                case {"event": "note", "text": text}:
                    listener.note(run, text)
                case _:
                    listener.finished(run, sentence=event.get("text"))

        tasks = [
            {
                "kind": "train",
                "config": run.config.to_task(),
                "folder": str(run.folder),
                "threads": self.threads,
                "arms": [str(folder) for folder in arms.get(run, ())],
            }
            for run in waiting
        ]
        try:
            results = self._dispatch(tasks, hear)
        finally:
            listener.end()
        return [
            Failure(run, result["text"])
            for run, result in zip(waiting, results, strict=True)
            if "text" in result
        ]

    def _keep_note(self, _: int, event: dict[str, Any]) -> None:
        if event["event"] == "note" and event["text"] not in self._notes:
            self._notes.append(event["text"])

    def _dispatch(
        self, tasks: Sequence[dict[str, Any]], hear: Callable[[int, dict[str, Any]], None]
    ) -> list[dict[str, Any]]:
        """The last event of each task; `hear` gets all events with the number of the task."""
        results: dict[int, dict[str, Any]] = {}
        waiting = deque(enumerate(tasks))
        for number in {*range(self.num_workers)} - {worker.number for worker in self._workers}:
            self._start(number)
        for worker in self._workers[: len(tasks)]:
            worker.give(*waiting.popleft())
        while len(results) < len(tasks):
            worker, event = self._events.get()
            if event is None:
                self._workers.remove(worker)
            if (number := worker.task) is None:
                continue
            if event is None or event["event"] not in ("step", "note"):
                event = results[number] = self._explained(worker, event)
                worker.task = None
                if waiting:
                    successor = worker if worker in self._workers else self._start(worker.number)
                    successor.give(*waiting.popleft())
            hear(number, event)
        return [results[number] for number in range(len(tasks))]

    def _start(self, number: int) -> Worker:
        worker = Worker(number, self._events, threads=self.threads, log=self._logs / f"worker-{number}.log")
        self._workers.append(worker)
        return worker

    def _explained(self, worker: Worker, event: dict[str, Any] | None) -> dict[str, Any]:
        if event is not None and event["event"] != "broken":
            return event
        self._has_broken = True
        if event is None:
            return {"event": "broken", "text": f"{worker.epitaph()}; the same command resumes it"}
        return event | {"text": f"{event['text']} (a defect of tailmask; {worker.log} has the details)"}
