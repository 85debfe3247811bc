"""Reading a run folder: configuration, history, metrics and predictions."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailmask._util.messages import UserError, closest

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Run", "no_run"]


def no_run(folder: Path) -> str:
    """The message for a folder without a run; if it does not exist, with the folder of the nearest name."""
    if folder.exists() or not folder.parent.is_dir():
        return f"{folder} is not a run: it has no run.json"
    close = closest(folder.name, (each.name for each in folder.parent.iterdir() if each.is_dir()))
    hint = f": did you mean {str(folder.with_name(close))!r}?" if close else ""
    return f"{folder} is not a run: there is no such folder{hint}"


class Run:
    """A run folder. Files are read when they are needed; a broken file raises a `UserError`.

    >>> Run(Path("no-such-folder")).config
    Traceback (most recent call last):
    tailmask._util.messages.UserError: no-such-folder is not a run: there is no such folder
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @property
    def exists(self) -> bool:
        """True if the folder holds a run, complete or not."""
        return (self.folder / "run.json").is_file()

    @property
    def is_complete(self) -> bool:
        """True if the run is trained and evaluated; an incomplete run can be resumed."""
        return self.exists and (self.folder / "metrics.json").is_file()

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """Content of run.json: everything that determines the result, and where and when it was made."""
        if not self.exists:
            raise UserError(no_run(self.folder))
        return _read_object(self.folder / "run.json")

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record per finished epoch, in order."""
        path = self.folder / "history.jsonl"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path} cannot be read: {error}") from error
        records = []
        for number, line in enumerate(lines, start=1):
            record = _parse(line, f"line {number} of {path}")
            if record.get("epoch") != number:
                raise UserError(
                    f"line {number} of {path} must be of epoch {number}, got {record.get('epoch')!r}: was "
                    "the file changed?"
                )
            records.append(record)
        return records

    @property
    def seconds(self) -> float:
        """Training time in seconds: the sum over epochs, or over sessions if the run is cross-fitted."""
        try:
            epochs = [float(epoch["seconds"]) for epoch in self.history]
            return sum(epochs) + sum(
                float(each.get("seconds", 0)) for each in self.config.get("sessions", [])
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{self.folder} does not say how long its training took: was it changed?"
            ) from error

    @functools.cached_property
    def metrics(self) -> dict[str, Any]:
        """Content of metrics.json."""
        if not self.is_complete:
            raise UserError(
                f"{self.folder} is not complete: run the same `tailmask train` command to finish it"
            )
        path = self.folder / "metrics.json"
        metrics = _read_object(path)
        reports = [metrics.get("test"), *metrics.values()]
        if not all(_is_report(report) for report in reports):
            raise UserError(f"{path} has no valid summary of every split: was it written by tailmask?")
        return metrics

    def predictions(self) -> dict[str, NDArray[Any]]:
        """`test_logits` float32, `test_targets` int8, both (N, C); the same for validation, if there is one.

        `test_members` (N, k) are the numbers of the groups that samples belong to, if the data have groups.
        `train_rows`, `validation_rows` and `test_rows` are rows of the user's file, counted from 1. A run
        with folds trains on all rows that are not for test. Its validation outputs are out of fold: row i was
        held out in fold `validation_folds[i]`.
        """
        from tailmask.runs.array_file import read_arrays

        return read_arrays(self.folder / "predictions.npz")


def _is_report(value: Any) -> bool:
    summary = value.get("summary") if isinstance(value, dict) else None
    return isinstance(summary, dict) and all(
        each is None or (isinstance(each, int | float) and not isinstance(each, bool))
        for each in summary.values()
    )


def _read_object(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    return _parse(text, str(path))


def _parse(text: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{what} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{what} must be a JSON object, got {type(value).__name__}: was it changed?")
    return value
