"""Progress of a study on the error stream: bars in a terminal, else one line per finished run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tailmask._util.messages import one_line, require
from tailmask.runs import Run
from tailmask.studies.planned_runs import PlannedRun
from tailmask.studies.worker_pool import Listener

__all__ = ["Display"]


class Display(Listener):
    """A display of the runs in progress and of the time left."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._console: Any = require("rich.console", extra="cli").Console(stderr=True)
        self._progress: Any = None
        self._status: Any = None
        self._bars: dict[PlannedRun, Any] = {}
        self._began: dict[PlannedRun, float] = {}
        self._notes: set[str] = set()
        self._finished = self._number = 0
        self._labels: dict[PlannedRun, str] = {}
        self._shares: dict[PlannedRun, float] = {}  # finished share of the epochs of runs in progress
        self._whole: Any = None

    def prepare(self) -> None:
        """Show that the study has begun, before the first run is trained."""
        self._show_status("loading the data, checking the methods")

    def begin(self, runs: Sequence[PlannedRun], *, complete: int) -> None:
        """Show the bars."""
        self._show_status(None)
        several = len({run.setting for run in runs}) > 1
        self._labels = {run: f"{run.setting.name}: {run.label}" if several else run.label for run in runs}
        self._finished, self._number = complete, len(runs)
        if complete:
            self._print(f"{complete} of {len(runs)} runs are already complete")
        if self._console.is_terminal:
            self._progress = self._bars_of(require("rich.progress", extra="cli"))
            self._whole = self._progress.add_task(self.title, total=len(runs), completed=complete, state="")
            self._progress.start()

    def step(self, run: PlannedRun, *, epochs: float, total: int, loss: float | None) -> None:
        """Advance the bar of a run."""
        self._began.setdefault(run, time.monotonic())
        if self._progress is None:
            return
        if run not in self._bars:
            self._bars[run] = self._progress.add_task(self._labels[run], total=total, state="")
        state = (
            f"fold {int(epochs)}/{total}" if loss is None else f"epoch {int(epochs)}/{total}, loss {loss:.4f}"
        )
        self._progress.update(self._bars[run], completed=epochs, state=state)
        self._shares[run] = epochs / total
        self._show_whole()

    def note(self, run: PlannedRun | None, text: str) -> None:
        """Print a note once."""
        if text not in self._notes:
            self._notes.add(text)
            self._print(f"note: {text}" if run is None else f"note: {self._labels[run]}: {text}")

    def finished(self, run: PlannedRun, *, sentence: str | None) -> None:
        """Remove the bar of a run and print its result."""
        self._finished += 1
        now = time.monotonic()
        seconds = now - self._began.pop(run, now)
        outcome = f"failed: {sentence}" if sentence else f"{_result(run)}, {seconds:.0f} s"
        self._print(f"{self._finished}/{self._number} {self._labels[run]}: {outcome}")
        if self._progress is not None:
            self._shares.pop(run, None)
            if run in self._bars:
                self._progress.remove_task(self._bars.pop(run))
            self._show_whole()

    def end(self) -> None:
        """Remove the bars."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def analysed(self, done: int, total: int) -> None:
        """Show how many runs have been compared."""
        self._show_status(f"comparing: {done} of {total} runs" if done < total else None)

    def _show_status(self, text: str | None) -> None:
        """Show a spinner with a text in a terminal; None removes it."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        if text is not None and self._console.is_terminal:
            self._status = self._console.status(text)
            self._status.start()

    def _show_whole(self) -> None:
        self._progress.update(
            self._whole,
            completed=self._finished + sum(self._shares.values()),
            state=f"{self._finished} of {self._number} runs",
        )

    def _bars_of(self, progress: Any) -> Any:
        return progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.TextColumn("{task.fields[state]}"),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )

    def _print(self, text: str) -> None:
        self._console.print(one_line(text), markup=False, highlight=False, soft_wrap=True)


def _result(run: PlannedRun) -> str:
    """A run's F1 on validation, or on test without validation: nobody should choose a method by test."""
    metrics = Run(run.folder).metrics
    split = "validation" if "validation" in metrics else "test"
    summary = metrics[split]["summary"]
    how = "" if "error" in summary else f" at threshold {run.config.recipe.evaluation.threshold:g}"
    return f"{split} F1 {100 * summary['f1']:.1f}{how}"
