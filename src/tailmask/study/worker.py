"""The process that works for a study: JSON lines in, JSON lines out.

There are two kinds of tasks. `check` asks whether the runs of a setting can be made, and is answered with
facts about the data; `train` makes one run. What happens meanwhile is reported as events, `step` and `note`;
the last event of a task is `done`, `failed` (a sentence that the user can act on) or `broken` (a defect).
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

from tailmask.data.dataset import Dataset
from tailmask.data.notes import data_notes
from tailmask.data.statistics import summaries
from tailmask.errors import explain
from tailmask.study.facts import DataError, DataFacts, load_data
from tailmask.study.plan import Setting
from tailmask.training.engine import Execution, build_module, determining, train
from tailmask.training.folder import check_folder

__all__ = ["main"]

Emit = Callable[[dict[str, Any]], None]


class _Reporter:
    """Progress of a run as events."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.total = 0

    def note(self, text: str) -> None:
        self.emit({"event": "note", "text": text})

    def begin(self, *, done: int, total: int) -> None:
        self.total = total
        self._step(done, None)

    def step(self, *, epoch: int, share: float, loss: float, num_samples: int) -> None:
        self._step(epoch - 1 + share, loss)

    def record(self, record: Mapping[str, Any]) -> None:
        self._step(record["epoch"], record["loss"])

    def end(self) -> None:
        """Nothing to tell: the result comes as the last event."""

    def _step(self, epochs: float, loss: float | None) -> None:
        self.emit({"event": "step", "epochs": epochs, "total": self.total, "loss": loss})


class _Tasks:
    """Does tasks; keeps the data of the last one, since the next one mostly wants the same."""

    def __init__(self) -> None:
        self.setting: Setting | None = None
        self.dataset: Dataset | None = None

    def do(self, task: dict[str, Any], emit: Emit) -> dict[str, Any]:
        setting = Setting.from_json(task["setting"])
        if task["kind"] == "check":
            return self._check(setting, task["runs"], emit)
        train(
            setting.config(task["method"], task["seed"]),
            Path(task["folder"]),
            dataset=self._load(setting),
            execution=Execution(threads=task["threads"]),
            progress=_Reporter(emit),
        )
        return {}

    def _check(self, setting: Setting, runs: list[dict[str, Any]], emit: Emit) -> dict[str, Any]:
        dataset = self._load(setting)
        for note in data_notes(dataset, summaries(dataset)):
            emit({"event": "note", "text": note})
        fitting: set[str] = set()
        for run in runs:
            config = setting.config(run["method"], run["seed"])
            if config.name not in fitting:
                build_module(config, dataset)
                fitting.add(config.name)
            check_folder(Path(run["folder"]), determining(config, dataset, world_size=1))
        return DataFacts.of(dataset).to_json()

    def _load(self, setting: Setting) -> Dataset:
        if self.dataset is None or self.setting is None or not setting.shares_data(self.setting):
            self.dataset = None  # never two in memory
            self.dataset, self.setting = load_data(setting), setting
        return self.dataset


def _explained(error: Exception) -> dict[str, Any]:
    """The last event of a task that ended with an error."""
    sentence = explain(error)
    if sentence is not None:
        return {"event": "failed", "text": sentence, "of_data": isinstance(error, DataError)}
    traceback.print_exception(error)
    return {"event": "broken", "text": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Do what the lines on standard input ask for, until they end."""
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no event

    def emit(event: dict[str, Any]) -> None:
        events.write(json.dumps(event) + "\n")
        events.flush()

    def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if not issubclass(category, DeprecationWarning | FutureWarning):
            emit({"event": "note", "text": str(message)})

    warnings.showwarning = show_warning
    tasks = _Tasks()
    for line in sys.stdin:
        try:
            answer = tasks.do(json.loads(line), emit)
        except KeyboardInterrupt:
            return
        except BrokenPipeError:  # the study is gone
            os._exit(1)
        except Exception as error:
            emit(_explained(error))
        else:
            emit({"event": "done", "answer": answer})
        gc.collect()  # a trainer and its module refer to each other


if __name__ == "__main__":
    main()
