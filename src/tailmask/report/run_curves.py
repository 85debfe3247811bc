"""What the report draws of a method's runs: their course over the epochs, and how their outputs lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from tailmask._util.messages import UserError
from tailmask.comparison.outputs import read_outputs
from tailmask.functional import histogram
from tailmask.methods import parse
from tailmask.runs.reader import Run

__all__ = ["divergences", "have_history", "losses", "output_counts", "ratios"]

NUM_BINS = 10


def have_history(runs: Iterable[Run]) -> bool:
    """Whether all runs have epochs on record; runs with folds have none."""
    return all(
        run.config.get("folds", 1) == 1 and parse(run.config["method"]).learner is None for run in runs
    )


def losses(runs: Iterable[Run]) -> list[list[float]]:
    """Training loss of each run by epoch."""
    return [_column(run, "loss").tolist() for run in runs]


def ratios(runs: Iterable[Run]) -> NDArray[np.float64]:
    """Target ratios by epoch, (T, C): the geometric mean over the runs."""
    columns = [np.log(_column(run, "ratio", _num_classes(run))) for run in runs]
    means: NDArray[np.float64] = np.exp(np.mean(columns, axis=0))
    return means


def divergences(runs: Iterable[Run]) -> NDArray[np.float64]:
    """Divergences D⁻ and D⁺ by epoch, (T, 2, C): the mean over the runs."""
    columns = [_column(run, "divergence", 2, _num_classes(run)) for run in runs]
    means: NDArray[np.float64] = np.mean(columns, axis=0)
    return means


def output_counts(runs: Iterable[Run], chosen: Sequence[int]) -> NDArray[np.int64]:
    """Test outputs of the chosen classes in bins, by label, (2, chosen, bins), summed over the runs."""
    columns = torch.tensor(list(chosen))
    total = torch.zeros(2, len(columns), NUM_BINS, dtype=torch.int64)
    for run in runs:
        outputs = read_outputs(run)
        targets = outputs.targets[:, columns]
        probabilities = outputs.probabilities()[:, columns].contiguous()
        total += histogram(probabilities, targets.clamp(min=0), NUM_BINS, known=targets >= 0)
    counts: NDArray[np.int64] = total.numpy()
    return counts


def _num_classes(run: Run) -> int:
    return len(run.config["classes"])


def _column(run: Run, name: str, *shape: int) -> NDArray[np.float64]:
    """One field of all epochs, (T, *shape); what was not defined is NaN."""
    try:
        column: NDArray[np.float64] = np.array([record[name] for record in run.history], dtype=np.float64)
    except (KeyError, TypeError, ValueError):
        column = np.empty(0)
    if column.shape != (run.config["recipe"]["schedule"].get("epochs"), *shape):
        raise UserError(f"{run.folder}/history.jsonl has no valid {name!r} of every epoch")
    return column
