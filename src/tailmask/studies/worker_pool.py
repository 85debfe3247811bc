"""Worker processes that check and make the runs of a study, some at a time, sharing the cores."""

from __future__ import annotations

import queue
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tailmask._util.messages import UserError, listing
from tailmask.data.facts import DataError, DataFacts
from tailmask.runs import Run, Setting
from tailmask.studies.planned_runs import PlannedRun
from tailmask.studies.worker_process import Events, Worker, num_gpus
from tailmask.training.with_lightning.devices import num_cores

__all__ = ["Failure", "Listener", "Pool", "choose_jobs", "num_missing", "raise_failures"]

# Each worker holds a copy of torch and of the data: beyond this many, memory is the user's to judge.
MOST_JOBS = 8
SECONDS_TO_STOP = 10.0


@dataclass(frozen=True)
class Failure:
    """A run that could not be made, and a sentence that says why."""

    run: PlannedRun
    sentence: str


def raise_failures(failures: Sequence[Failure]) -> None:
    """Say which runs have failed, as an error, where any has."""
    if failures:
        reasons = listing((f"{failure.run.label}: {failure.sentence}" for failure in failures), limit=3)
        number = f"{len(failures)} run{'s' if len(failures) > 1 else ''}"
        raise UserError(f"{number} failed, and the result is without: {reasons}")


class Listener(Protocol):
    """Hears how a study goes on; all calls come from the calling thread."""

    def prepare(self) -> None:
        """The data are about to be loaded and everything to be checked."""

    def begin(self, runs: Sequence[PlannedRun], *, complete: int) -> None:
        """The runs are about to be made, `complete` of which are there already."""

    def step(self, run: PlannedRun, *, epochs: float, total: int, loss: float | None) -> None:
        """A run has come to `epochs` of `total` epochs."""

    def note(self, run: PlannedRun | None, text: str) -> None:
        """Something worth knowing about a run, or about the data."""

    def finished(self, run: PlannedRun, *, sentence: str | None) -> None:
        """A run is complete, or has failed for the reason in `sentence`."""

    def end(self) -> None:
        """All runs are made, or the study was interrupted."""

    def analysed(self, done: int, total: int) -> None:
        """Of the finished runs so many have been read and compared."""


def choose_jobs(asked: int | None, *, num_runs: int) -> int:
    """How many runs to make at a time: as many as asked for, else one a GPU or core, at most 8."""
    if asked is not None and asked < 1:
        raise UserError(f"--jobs must be 1 or more, got {asked}")
    return min(asked or min(num_gpus() or num_cores(), MOST_JOBS), num_runs)


def num_missing(runs: Iterable[PlannedRun]) -> int:
    """How many of the runs are not complete."""
    return sum(not Run(run.folder).is_complete for run in runs)


class Pool:
    """Worker processes, started with the first task and kept until the `with` block ends.

    There are `jobs` of them, fewer where just `num_runs` runs are to be made. The cores are shared out
    evenly: a run's number of threads depends on `jobs` alone, not on how many runs are left, so that a study
    that is interrupted and gone on with gives the same numbers. An exception, an interrupt too, stops the
    workers and leaves runs that can be gone on with.
    """

    def __init__(self, jobs: int, *, num_runs: int | None = None) -> None:
        self.num_workers = max(1, jobs if num_runs is None else min(jobs, num_runs))
        self.threads = max(1, num_cores() // jobs)
        self._events: Events = queue.Queue()
        self._workers: list[Worker] = []
        self._logs = Path(tempfile.mkdtemp(prefix="tailmask-"))
        self._notes: list[str] = []  # about the data, heard before there was a listener
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
        """Facts about the data of the settings; data that cannot be loaded are a `DataError`."""
        return self._check({setting: [] for setting in settings})

    def check(self, runs: Sequence[PlannedRun]) -> dict[Setting, DataFacts]:
        """Load the data, fit every method to them, look into every folder; raises what cannot work."""
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
            facts[setting] = DataFacts.from_json(result["answer"])
        return facts

    def make(
        self,
        runs: Sequence[PlannedRun],
        listener: Listener | None = None,
        *,
        arms: Mapping[PlannedRun, Sequence[Path]] | None = None,
    ) -> list[Failure]:
        """Make the runs that are not complete; one that fails does not keep the others from being made.

        A run in `arms` is an ensemble of the runs in these folders. It is made anew if they have changed.
        """
        arms = arms or {}
        waiting = [run for run in runs if run in arms or not Run(run.folder).is_complete]
        if listener is not None:
            listener.begin(runs, complete=len(runs) - len(waiting))
            for text in self._notes:
                listener.note(None, text)

        def hear(number: int, event: dict[str, Any]) -> None:
            if listener is None:
                return
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
            if listener is not None:
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
        self, tasks: Sequence[dict[str, Any]], hear: Callable[[int, dict[str, Any]], None] | None = None
    ) -> list[dict[str, Any]]:
        """The last event of each task."""
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
            if hear is not None:
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
            return {"event": "broken", "text": f"{worker.epitaph()}; the same command goes on with it"}
        return event | {"text": f"{event['text']} (a defect of tailmask; {worker.log} has the details)"}
