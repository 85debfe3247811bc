"""Gradient boosting with LightGBM: one model per label, kept as flat arrays."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tailmask._util.messages import UserError, require
from tailmask.learners.arrays import Array, Matrix, check_matrix, check_targets, prior_logits, take
from tailmask.learners.flat_trees import FlatTrees
from tailmask.learners.lightgbm_text import read_trees

__all__ = ["Boosters", "fit_boosters"]


@dataclass(frozen=True)
class Boosters:
    """The trees of all labels; see `fit_boosters`."""

    trees: FlatTrees
    leaf_values: Array  # (leaves,) float64: what a leaf adds to the logit
    starts: Array  # (C + 1,) int32: where each label's trees begin
    bias: Array  # (C,) float64: the logit of a label without trees, else 0

    @property
    def rounds(self) -> npt.NDArray[np.int32]:
        """The number of trees per label: (C,)."""
        return np.diff(self.starts)

    def logits(self, matrix: Matrix) -> Tensor:
        """The logits of all labels: (N, C) float32, equal to LightGBM's raw scores."""
        matrix = check_matrix(matrix, missing=True, features=self.trees.features)
        logits = np.tile(self.bias, (matrix.shape[0], 1))
        has_trees = np.flatnonzero(self.rounds)
        for rows, leaves in self.trees.leaf_chunks(matrix):
            if len(has_trees):
                values = self.leaf_values[leaves]  # (n, T)
                logits[rows, has_trees] += np.add.reduceat(values, self.starts[has_trees], axis=1)
        return torch.from_numpy(logits.astype(np.float32))

    def arrays(self) -> dict[str, Array]:
        """The arrays to store; `from_arrays` takes them back."""
        own = {"leaf_values": self.leaf_values, "starts": self.starts, "bias": self.bias}
        return own | {f"trees.{name}": array for name, array in self.trees.arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Boosters:
        """The boosters from stored arrays; damaged ones are refused."""
        trees = FlatTrees.from_arrays(
            {
                name.removeprefix("trees."): array
                for name, array in arrays.items()
                if name.startswith("trees.")
            }
        )
        bias = take(arrays, "bias", dtype=np.float64, shape=(None,))
        starts = take(arrays, "starts", dtype=np.int32, shape=(len(bias) + 1,))
        values = take(arrays, "leaf_values", dtype=np.float64, shape=(trees.leaves,))
        if starts[0] != 0 or starts[-1] != len(trees.roots) or (np.diff(starts) < 0).any():
            raise UserError(
                "the stored boosters do not say which trees belong to which label: fit them again"
            )
        return cls(trees, values, starts, bias)


def fit_boosters(
    matrix: Matrix,
    targets: Array,
    *,
    seed: int,
    categorical: Sequence[int] = (),
    pos_power: float = 0.0,
    rounds: int = 100,
    deadline: float | None = None,
    threads: int | None = None,
) -> Boosters:
    """Boost one sequence of trees per label; unknown labels are left out of their label's fit.

    `categorical` columns hold category codes ≥ 0, and NaN is a missing value. Positives weigh
    (negatives / positives)^`pos_power`. A label with one value only gets the logit of its smoothed
    prevalence. Every label gets the same number of `rounds`: early stopping on held-out rows made the ranking
    worse, because log-loss is lowest long before average precision is highest.

    Each label gets an equal part of the time to `deadline`, a time of `time.monotonic()`, and at least one
    tree. Labels are trained in parallel, each on one thread, so the number of threads does not change the
    result.

    >>> x = np.arange(60, dtype=np.float32)[:, None]
    >>> boosters = fit_boosters(x, (x > 29).astype(np.int8), seed=0, rounds=20)
    >>> (boosters.logits(x[[0, 20, 40, 59]])[:, 0] > 0).tolist()
    [False, False, True, True]
    """
    matrix = check_matrix(matrix, missing=True)
    targets = check_targets(targets, matrix.shape[0])
    if not all(0 <= column < matrix.shape[1] for column in categorical):
        raise ValueError(
            f"categorical columns must be from 0 to {matrix.shape[1] - 1}, got {list(categorical)}"
        )
    learnable = [c for c in range(targets.shape[1]) if {0, 1} <= set(np.unique(targets[:, c]).tolist())]
    workers = max(1, min(threads or os.cpu_count() or 1, len(learnable)))

    def work(labels: Sequence[int]) -> list[tuple[int, FlatTrees, Array]]:
        if not labels:
            return []
        trainer = _Trainer.of(matrix, categorical, seed=seed)
        done = []
        for position, label in enumerate(labels):
            end = None
            if deadline is not None:
                end = time.monotonic() + (deadline - time.monotonic()) / (len(labels) - position)
            text = trainer.train(targets[:, label], rounds=rounds, pos_power=pos_power, deadline=end)
            done.append((label, *read_trees(text, features=matrix.shape[1])))
        return done

    with ThreadPoolExecutor(workers) as pool:
        done = [
            job for jobs in pool.map(work, [learnable[i::workers] for i in range(workers)]) for job in jobs
        ]
    done.sort(key=lambda job: job[0])
    counts = np.zeros(targets.shape[1], dtype=np.int32)
    counts[[label for label, _, _ in done]] = [len(trees.roots) for _, trees, _ in done]
    empty = FlatTrees.of(
        features=matrix.shape[1], leaves=0, roots=(), feature=(), threshold=(), children=(), missing_left=()
    )
    return Boosters(
        trees=FlatTrees.join([empty, *(trees for _, trees, _ in done)]),
        leaf_values=np.concatenate([np.zeros(0), *(values for _, _, values in done)]),
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        bias=np.where(counts > 0, 0.0, prior_logits(targets)),
    )


@dataclass(frozen=True)
class _Trainer:
    """LightGBM on one thread, with the rows binned once for all labels."""

    rows: Any  # lightgbm.Dataset, constructed
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, matrix: Matrix, categorical: Sequence[int], *, seed: int) -> _Trainer:
        lightgbm = require("lightgbm", extra="cli")
        parameters = {
            "objective": "binary",
            "metric": "none",
            "learning_rate": 0.1,
            "num_leaves": 15,
            "min_data_in_leaf": 5,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "seed": seed % 2**31,
            "verbosity": -1,
        }
        rows = lightgbm.Dataset(
            matrix,
            np.zeros(matrix.shape[0], dtype=np.float32),
            categorical_feature=list(categorical),
            params=parameters,
        )
        return cls(rows.construct(), parameters)

    def train(self, labels: Array, *, rounds: int, pos_power: float, deadline: float | None) -> str:
        """The text of one label's model."""
        known = np.flatnonzero(labels >= 0)
        rows = self.rows if len(known) == len(labels) else self.rows.subset(known).construct()
        rows.set_label(labels[known].astype(np.float32))
        positives = int((labels == 1).sum())
        parameters = {**self.parameters, "scale_pos_weight": (len(known) / positives - 1) ** pos_power}
        booster = require("lightgbm", extra="cli").Booster(parameters, rows)
        for _ in range(rounds):
            is_exhausted = booster.update()
            if is_exhausted or (deadline is not None and time.monotonic() > deadline):
                break
        text: str = booster.model_to_string(num_iteration=-1)
        return text
