"""The data of the report's figures: curves over the epochs, and statistics of the outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from tailmask._util.messages import UserError
from tailmask.comparison.run_outputs import read_outputs
from tailmask.functional import histogram
from tailmask.methods import parse
from tailmask.metrics import confusion
from tailmask.runs.reader import Run

__all__ = [
    "calibration",
    "divergences",
    "have_history",
    "losses",
    "output_counts",
    "precision_recall",
    "ratios",
    "threshold_points",
    "validation_curves",
]

NUM_BINS = 10
NUM_STEPS = 51


def validation_curves(runs: Iterable[Run], name: str) -> list[list[float]] | None:
    """A measure on validation data by run and epoch; None if a run has not recorded it."""
    curves = []
    for run in runs:
        values = [record.get("validation", {}).get(name) for record in run.history]
        if not values or not all(isinstance(value, int | float) for value in values):
            return None
        curves.append([float(value) for value in values])
    return curves if len({len(curve) for curve in curves}) == 1 else None


def have_history(runs: Iterable[Run]) -> bool:
    """True if all runs have recorded epochs; cross-fitted runs have none."""
    return all(
        run.config.get("folds", 1) == 1 and parse(run.config["method"]).learner is None for run in runs
    )


def losses(runs: Iterable[Run]) -> list[list[float]]:
    """Training loss by run and epoch."""
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
    """Histograms (2, chosen, bins) of the test outputs of the chosen classes, summed over the runs."""
    columns = torch.tensor(list(chosen))
    total = torch.zeros(2, len(columns), NUM_BINS, dtype=torch.int64)
    for run in runs:
        outputs = read_outputs(run)
        targets = outputs.targets[:, columns]
        probabilities = outputs.probabilities()[:, columns].contiguous()
        total += histogram(probabilities, targets.clamp(min=0), NUM_BINS, known=targets >= 0)
    counts: NDArray[np.int64] = total.numpy()
    return counts


def precision_recall(runs: Iterable[Run], chosen: Sequence[int]) -> NDArray[np.float64]:
    """Precision (chosen, steps) on the test set at even steps of recall, the mean over the runs."""
    steps = np.linspace(0.0, 1.0, NUM_STEPS)
    curves = []
    for run in runs:
        outputs = read_outputs(run)
        curves.append(
            [_precision_at(*_known(outputs.logits, outputs.targets, index), steps) for index in chosen]
        )
    means: NDArray[np.float64] = np.mean(curves, axis=0)
    return means


def threshold_points(runs: Iterable[Run], chosen: Sequence[int], decision: str) -> NDArray[np.float64] | None:
    """Recall and precision (chosen, 2) that a decision gives on the test set, the mean over the runs."""
    points = []
    for run in runs:
        outputs = read_outputs(run)
        if not outputs.offers(decision):
            return None
        evaluation = outputs.evaluation(decision)
        counts = confusion(evaluation.predictions, evaluation.labels)
        points.append(torch.stack([counts.recall, counts.precision], dim=1)[list(chosen)].numpy())
    means: NDArray[np.float64] = np.mean(points, axis=0)
    return means


def calibration(
    runs: Iterable[Run], chosen: Sequence[int]
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Mean outputs and shares of present labels of each chosen class, in bins of equal size."""
    pooled: list[list[tuple[NDArray[np.float64], NDArray[np.bool_]]]] = [[] for _ in chosen]
    for run in runs:
        outputs = read_outputs(run)
        for place, index in enumerate(chosen):
            pooled[place].append(_known(outputs.probabilities(), outputs.targets, index))
    curves = []
    for parts in pooled:
        scores, present = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(scores, kind="stable")
        bins = np.array_split(order, min(NUM_BINS, max(1, int(present.sum()))))
        means = np.array([scores[rows].mean() for rows in bins if len(rows)])
        curves.append((means, np.array([present[rows].mean() for rows in bins if len(rows)])))
    return curves


def _known(
    scores: torch.Tensor, targets: torch.Tensor, index: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    known = targets[:, index] >= 0
    return scores[known, index].double().numpy(), (targets[known, index] == 1).numpy()


def _precision_at(
    scores: NDArray[np.float64], present: NDArray[np.bool_], steps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The highest precision with at least the recall of each step."""
    hits = np.cumsum(present[np.argsort(-scores, kind="stable")])
    if not hits.size or not hits[-1]:
        return np.full(len(steps), np.nan)
    precision = np.maximum.accumulate((hits / np.arange(1, len(hits) + 1))[::-1])[::-1]
    places = np.searchsorted(hits / hits[-1], steps)
    found: NDArray[np.float64] = precision[np.minimum(places, len(precision) - 1)]
    return found


def _num_classes(run: Run) -> int:
    return len(run.config["classes"])


def _column(run: Run, name: str, *shape: int) -> NDArray[np.float64]:
    """One field of all epochs, (T, *shape); NaN if undefined."""
    try:
        column: NDArray[np.float64] = np.array([record[name] for record in run.history], dtype=np.float64)
    except (KeyError, TypeError, ValueError):
        column = np.empty(0)
    if column.shape != (run.config["recipe"]["schedule"].get("epochs"), *shape):
        raise UserError(f"{run.folder}/history.jsonl must have a valid {name!r} per epoch: was it changed?")
    return column
