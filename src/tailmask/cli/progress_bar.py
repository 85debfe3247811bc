"""Progress of a run: a bar in a terminal, else a line every 30 seconds."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.status import Status

from tailmask._util.messages import one_line
from tailmask.training.progress import Progress

__all__ = ["RunProgress", "notes"]

SECONDS_BETWEEN_LINES = 30.0


class RunProgress(Progress):
    """A display of epoch, loss, speed and time left on the standard error stream.

    It does not use the terminal before the first call, so it can be passed to another process. Displays that
    share `printed` print each note once.
    """

    def __init__(self, title: str, *, printed: set[str] | None = None) -> None:
        self.title = title
        self._printed = set() if printed is None else printed
        self._status: Status | None = None
        self._bar: Bar | None = None
        self._began = self._last_line = 0.0
        self._first = self._total = self._num_samples = 0

    def wait(self, text: str) -> None:
        """Show a text before the bar appears."""
        console = Console(stderr=True)
        if console.is_terminal:
            self._status = console.status(text)
            self._status.start()

    def note(self, text: str) -> None:
        """Print a note that was not printed before."""
        if text in self._printed:
            return
        self._printed.add(text)
        shown = self._bar or self._status
        console = shown.console if shown is not None else Console(stderr=True)
        console.print(f"note: {one_line(text)}", markup=False, highlight=False, soft_wrap=True)

    def begin(self, *, done: int, total: int) -> None:
        """Show the bar."""
        self.end()
        self._began = self._last_line = time.monotonic()
        self._first, self._total, self._num_samples = done, total, 0
        console = Console(stderr=True)
        if console.is_terminal:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[place]}"),
                TextColumn("{task.fields[speed]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            self._bar.add_task(self.title, total=total, completed=done, place="", speed="")
            self._bar.start()

    def step(self, *, epoch: int, share: float, loss: float | None, num_samples: int) -> None:
        """Advance the bar."""
        self._num_samples += num_samples
        self._show(epoch, epoch - 1 + share, loss)

    def record(self, record: Mapping[str, Any]) -> None:
        """Advance the bar to an epoch's end, or print a line if there is no bar."""
        epoch, loss = int(record["epoch"]), record["loss"]
        self._show(epoch, epoch, loss)
        now = time.monotonic()
        if self._bar is not None and epoch == self._total:
            self._bar.update(self._bar.task_ids[0], description=f"{self.title}: evaluating")
        if self._bar is None and (now - self._last_line > SECONDS_BETWEEN_LINES or epoch == self._total):
            left = (now - self._began) / max(1, epoch - self._first) * (self._total - epoch)
            line = f"{self.title}: epoch {epoch}/{self._total}, loss {loss:.4f}, {left:.0f} s left"
            Console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)
            self._last_line = now

    def end(self) -> None:
        """Remove the bar."""
        for shown in (self._bar, self._status):
            if shown is not None:
                shown.stop()
        self._bar = self._status = None

    def _show(self, epoch: int, completed: float, loss: float | None) -> None:
        if self._bar is not None:
            speed = self._num_samples / max(1e-9, time.monotonic() - self._began)
            place = f"{'fold' if loss is None else 'epoch'} {epoch}/{self._total}"
            text = "" if loss is None else f"loss {loss:.4f}, {speed:.0f} samples/s"
            self._bar.update(self._bar.task_ids[0], completed=completed, place=place, speed=text)


@contextlib.contextmanager
def notes(progress: RunProgress) -> Iterator[None]:
    """Show warnings as notes of one line each, without their place in the code."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if not issubclass(category, DeprecationWarning | FutureWarning):
            progress.note(str(message))

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
