"""The worker process of a study: JSON lines in, JSON lines out.

There are two kinds of tasks. `check` tests whether the runs of a setting can be made, and answers with facts
about the data. `train` makes one run. During a task the worker sends the events `step` and `note`. The last
event of a task is `done`, `failed` (a sentence that the user can act on) or `broken` (a defect).
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tailmask._util.messages import explain
from tailmask._util.serialization import to_mapping
from tailmask.data import DataOptions
from tailmask.data.class_statistics import summaries
from tailmask.data.dataset import Dataset
from tailmask.data.facts import DataError, DataFacts, load_data
from tailmask.data.notes import data_notes
from tailmask.learners.cross_fitted_run import make_run, raw_data_of
from tailmask.learners.ensemble_run import make_ensemble
from tailmask.runs import Run, RunConfig
from tailmask.runs.folder import check_folder
from tailmask.training.engine import Execution, determining
from tailmask.training.progress import Progress
from tailmask.training.run_parts import build_parts

__all__ = ["Tasks", "explained", "main"]

Emit = Callable[[dict[str, Any]], None]


class _Reporter(Progress):
    """Progress of a run as events."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.total = 0

    def note(self, text: str) -> None:
        self.emit({"event": "note", "text": text})

    def begin(self, *, done: int, total: int) -> None:
        self.total = total
        self._step(done, None)

    def step(self, *, epoch: int, share: float, loss: float | None, num_samples: int) -> None:
        self._step(epoch - 1 + share, loss)

    def record(self, record: Mapping[str, Any]) -> None:
        self._step(record["epoch"], record["loss"])

    def _step(self, epochs: float, loss: float | None) -> None:
        self.emit({"event": "step", "epochs": epochs, "total": self.total, "loss": loss})


class Tasks:
    """Does tasks. It keeps the data of the last task, because the next task usually needs the same data."""

    def __init__(self) -> None:
        self.loaded: tuple[str, DataOptions] | None = None
        self.dataset: Dataset | None = None

    def do(self, task: dict[str, Any], emit: Emit) -> dict[str, Any]:
        if task["kind"] == "check":
            dataset = self._load(task["data"], DataOptions.from_json(task["options"]))
            return self._check(dataset, task["runs"], emit)
        config, folder = RunConfig.from_task(task["config"]), Path(task["folder"])
        dataset = self._load(config.data, config.options)
        if task["arms"]:
            make_ensemble(folder, [Run(each) for each in task["arms"]], config, dataset)
        else:
            execution = Execution(threads=task["threads"])
            make_run(config, folder, dataset=dataset, execution=execution, progress=_Reporter(emit))
        return {}

    def _check(self, dataset: Dataset, runs: list[dict[str, Any]], emit: Emit) -> dict[str, Any]:
        for note in data_notes(dataset, summaries(dataset)):
            emit({"event": "note", "text": note})
        fitting: set[str] = set()
        for run in runs:
            config = RunConfig.from_task(run["config"])
            if config.name not in fitting:
                if not config.is_plain:
                    raw_data_of(dataset, config)
                if config.method.learner is None:
                    build_parts(config, dataset)
                fitting.add(config.name)
            check_folder(Path(run["folder"]), determining(config, dataset, world_size=1))
        facts: dict[str, Any] = to_mapping(DataFacts.of(dataset))
        return facts

    def _load(self, data: str, options: DataOptions) -> Dataset:
        if self.dataset is None or self.loaded != (data, options):
            self.dataset = None  # never two data sets in memory
            self.dataset, self.loaded = load_data(data, options), (data, options)
        return self.dataset


def explained(error: Exception) -> dict[str, Any]:
    """The last event of a task that ended with an error."""
    sentence = explain(error)
    if sentence is not None:
        return {"event": "failed", "text": sentence, "of_data": isinstance(error, DataError)}
    traceback.print_exception(error)
    return {"event": "broken", "text": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Do the tasks on standard input until it ends."""
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # prints of libraries are not events

    def emit(event: dict[str, Any]) -> None:
        events.write(json.dumps(event) + "\n")
        events.flush()

    def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if not issubclass(category, DeprecationWarning | FutureWarning):
            emit({"event": "note", "text": str(message)})

    warnings.showwarning = show_warning
    tasks = Tasks()
    for line in sys.stdin:
        try:
            answer = tasks.do(json.loads(line), emit)
        except KeyboardInterrupt:
            return
        except BrokenPipeError:  # the study has ended
            os._exit(1)
        except Exception as error:
            emit(explained(error))
        else:
            emit({"event": "done", "answer": answer})
        gc.collect()  # a trainer and its module refer to each other, so only the collector frees them


if __name__ == "__main__":
    main()
