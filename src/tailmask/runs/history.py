"""The history of a run: one line of JSON per epoch, appended, and repaired when a run is resumed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from tailmask._util.files import write_text
from tailmask.masking import RatioUpdate

__all__ = ["append_record", "epoch_record", "restore_history", "scalars", "to_line"]


def epoch_record(
    *,
    epoch: int,
    loss: float,
    lr: float,
    seconds: float,
    num_samples: int,
    in_force: tuple[Tensor, Tensor] | None,
    update: RatioUpdate | None,
    validation: dict[str, float] | None,
) -> dict[str, Any]:
    """The record of one epoch: its settings and its measurements.

    Epochs count from 1 here. `in_force` are the ratios (C,) and the keep probabilities (2, C) that the epoch
    was trained with; None without masking. The divergences and the gap were measured in it and determine the
    next epoch's ratios. Six digits are kept, and NaN is null.
    """
    record: dict[str, Any] = {
        "epoch": epoch + 1,
        "loss": _plain(loss),
        "lr": _plain(lr),
        "seconds": round(seconds, 3),
        "samples": num_samples,
    }
    if in_force is not None and update is not None:
        record |= {
            "ratio": _plain(in_force[0].tolist()),  # (C,)
            "keep": _plain(in_force[1].tolist()),  # (2, C) negatives, positives
            "divergence": _plain(update.divergence.tolist()),  # (2, C)
            "gap": _plain(update.gap.tolist()),  # (C,)
        }
    if validation is not None:
        record["validation"] = {name: _plain(value) for name, value in validation.items()}
    return record


def to_line(record: dict[str, Any]) -> str:
    """A record as a line of the history.

    >>> to_line({"epoch": 1, "loss": 0.5})
    '{"epoch": 1, "loss": 0.5}'
    """
    return json.dumps(record, allow_nan=False)


def scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """The single numbers of a record by name, for loggers; with ratios of the first 100 classes.

    >>> scalars({"epoch": 1, "loss": 0.5, "lr": 0.1, "validation": {"f1": 0.25, "ap": None}})
    {'loss': 0.5, 'lr': 0.1, 'validation/f1': 0.25}
    """
    values = {"loss": record["loss"], "lr": record["lr"]}
    values |= {f"validation/{name}": value for name, value in record.get("validation", {}).items()}
    values |= {f"ratio/{index}": value for index, value in enumerate(record.get("ratio", ())) if index < 100}
    return {name: value for name, value in values.items() if value is not None}


def append_record(path: Path, record: dict[str, Any], *, durable: bool = True) -> None:
    """Append a record to the history; with `durable`, wait until it is on the disk."""
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{to_line(record)}\n")
        if durable:
            file.flush()
            os.fsync(file.fileno())


def restore_history(path: Path, lines: Sequence[str]) -> None:
    """Replace the history by these lines, one per finished epoch.

    A kill can leave an extra line for an unfinished epoch, and a power cut can lose lines.
    """
    content = "".join(f"{line}\n" for line in lines)
    there = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    if there != content:
        write_text(path, content)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return float(f"{value:.6g}") if math.isfinite(value) else None
