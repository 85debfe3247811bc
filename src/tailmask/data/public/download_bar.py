"""A progress bar for downloads, with the interface that pooch expects."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from tailmask._util.messages import require

__all__ = ["DownloadBar"]


class DownloadBar:
    """Shows the bytes of one download on the error stream, if that is a terminal."""

    def __init__(self, name: str) -> None:
        progress: Any = require("rich.progress", extra="cli")
        console = require("rich.console", extra="cli").Console(stderr=True)
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(name, total=None)
        self._total: int | None = None

    def __enter__(self) -> DownloadBar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    @property
    def total(self) -> int | None:
        """Size of the download in bytes; None if the server does not send it."""
        return self._total

    @total.setter
    def total(self, value: int) -> None:
        self._total = value or None
        self._progress.update(self._task, total=self._total)

    def update(self, amount: int) -> None:
        """Add received bytes."""
        self._progress.update(self._task, advance=amount)

    def reset(self) -> None:
        """Set the bar to zero. pooch does that before it fills the bar."""
        self._progress.reset(self._task, total=self._total)

    def close(self) -> None:
        """Nothing to do: the bar ends with its `with` block."""
