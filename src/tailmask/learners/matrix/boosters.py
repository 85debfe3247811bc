"""Gradient boosting with LightGBM: one model per label, kept as flat arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tailmask._util.cores import in_threads
from tailmask._util.messages import UserError
from tailmask._util.registry import Option, word
from tailmask.learners.matrices import Array, Matrix, as_targets, check_matrix, prior_logits
from tailmask.learners.matrix.flat_trees import FlatTrees
from tailmask.learners.matrix.inner_folds import inner_cuts
from tailmask.learners.matrix.lightgbm_text import read_trees
from tailmask.learners.matrix.lightgbm_training import (
    InnerBoosters,
    Keep,
    LabelTrainer,
    dealt,
    learnable,
    stretches_of,
)
from tailmask.learners.matrix.matrix_learner import MatrixLearner, Model
from tailmask.learners.protocol import NEVER, Deadline
from tailmask.learners.stored_models import prefixed, take, without_prefix
from tailmask.masking.ratio_track import Masking, RatioTrack

__all__ = ["BoostLearner", "Boosters", "fit_boosters", "fit_masked_boosters"]


@dataclass(frozen=True)
class Boosters:
    """The trees of all labels; see `fit_boosters`."""

    trees: FlatTrees
    leaf_values: Array  # (leaves,) float64: the value that a leaf adds to the logit
    starts: Array  # (C + 1,) int32: where each label's trees begin
    bias: Array  # (C,) float64: the logit of a label without trees, else 0

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of features and classes."""
        return self.trees.features, len(self.bias)

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
        return own | prefixed("trees", self.trees.arrays())

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Boosters:
        """The boosters from stored arrays; damaged ones are refused."""
        trees = FlatTrees.from_arrays(without_prefix("trees", arrays))
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
    keep: Sequence[Keep] = (),
    deadline: Deadline = NEVER,
    threads: int | None = None,
) -> Boosters:
    """Boost one sequence of trees per label; unknown labels are left out of their label's fit.

    `categorical` columns hold category codes ≥ 0, and NaN is a missing value. Positives weigh
    (negatives / positives)^`pos_power`. A label with one value only gets the logit of its smoothed
    prevalence. Every label gets the same number of `rounds`: early stopping on held-out rows made the ranking
    worse, because log-loss is lowest long before average precision is highest.

    `keep` has the keep probabilities (2, C) of one or more stretches, into which the rounds are cut: each
    tree is grown on newly drawn negatives and positives, with these probabilities.

    Each label gets an equal part of the time to `deadline`, and at least one tree. Labels are trained in
    parallel, each on one thread, so the number of threads does not change the result.

    >>> x = np.arange(60, dtype=np.float32)[:, None]
    >>> boosters = fit_boosters(x, (x > 29).astype(np.int8), seed=0, rounds=20)
    >>> (boosters.logits(x[[0, 20, 40, 59]])[:, 0] > 0).tolist()
    [False, False, True, True]
    """
    matrix, targets = _checked(matrix, targets, categorical)
    stretches = stretches_of(rounds, keep, num_classes=targets.shape[1])

    def work(labels: Sequence[int]) -> list[tuple[int, FlatTrees, Array]]:
        trainer = LabelTrainer.of(matrix, categorical, seed=seed)
        done = []
        for position, label in enumerate(labels):
            own = deadline.part(1 / (len(labels) - position))
            texts = trainer.train(
                label, targets[:, label], stretches=stretches, pos_power=pos_power, deadline=own
            )
            parts = [read_trees(text, features=matrix.shape[1]) for text in texts]
            trees = FlatTrees.join([trees for trees, _ in parts])
            done.append((label, trees, np.concatenate([values for _, values in parts])))
        return done

    done = [job for jobs in in_threads(work, dealt(learnable(targets), threads), threads) for job in jobs]
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


def fit_masked_boosters(
    matrix: Matrix,
    targets: Array,
    masking: Masking,
    *,
    seed: int,
    categorical: Sequence[int] = (),
    pos_power: float = 0.0,
    rounds: int = 100,
    deadline: Deadline = NEVER,
    threads: int | None = None,
) -> tuple[Boosters, RatioTrack]:
    """Boost with Partial Label Masking: each tree has its own masks, drawn by Eq. 3.

    There are `masking.updates` stretches of rounds. After each stretch, an inner model's outputs for held-out
    rows move the ratios. Then all rows are boosted, with the same ratios in each stretch. The arguments are
    those of `fit_boosters`.

    >>> x = np.arange(60, dtype=np.float32)[:, None]
    >>> boosters, track = fit_masked_boosters(x, (x > 49).astype(np.int8), Masking(), seed=0, rounds=20)
    >>> boosters.rounds.tolist(), track.num_updates
    ([20], 8)
    """
    matrix, targets = _checked(matrix, targets, categorical)
    track = RatioTrack(masking, targets)
    cuts = inner_cuts(targets, seed=seed)[:1]  # each further cut would take as much time
    half_time = deadline.part(1 / 2)
    keep = [track.keep.double().numpy()]
    plan = stretches_of(rounds, keep * masking.updates, num_classes=targets.shape[1])
    for _, held in cuts:
        inner = InnerBoosters.of(matrix, targets, held, categorical=categorical, seed=seed, threads=threads)
        for number, (length, _) in enumerate(plan):
            if half_time.passed:
                break
            inner.boost(rounds=length, keep=keep[-1], stretch=number, pos_power=pos_power)
            track.update(torch.from_numpy(inner.scores[held]).float(), targets[held])
            keep.append(track.keep.double().numpy())
    boosters = fit_boosters(
        matrix,
        targets,
        seed=seed,
        categorical=categorical,
        pos_power=pos_power,
        rounds=rounds,
        keep=keep[: len(plan)] + keep[-1:] * (len(plan) - len(keep)),
        deadline=deadline,
        threads=threads,
    )
    return boosters, track


@word(
    "boost",
    kind="learner",
    implies="bce",
    summary="gradient boosting by LightGBM, one model per label",
)
@dataclass(frozen=True)
class BoostLearner(MatrixLearner):
    """Gradient boosting by LightGBM on raw features, one model per label.

    Strong on tables with categories, dates and missing values, which it takes without encoding.

    >>> from tailmask.data.rows import Rows
    >>> rows = Rows(np.arange(60.0)[:, None], np.arange(60)[:, None] > 29)
    >>> (BoostLearner(rounds=20).fit(rows, seed=0).logits(rows)[[0, -1], 0] > 0).tolist()
    [False, True]

    Args:
        rounds: Number of trees per label.
        pos_power: Positives weigh (negatives / positives) to this power.
        masking: How to mask labels; None masks none.

    Paper:
        Ke, Meng, Finley, Wang, Chen, Ma, Ye, Liu, LightGBM: A Highly Efficient Gradient Boosting Decision
        Tree, NeurIPS 2017
    """

    model = Boosters

    rounds: Annotated[int, Option(minimum=1)] = 100
    pos_power: Annotated[float, Option(minimum=0, maximum=1)] = 0.0
    masking: Masking | None = None

    def fit_model(self, inputs: dict[str, Any], *, categorical: Sequence[int]) -> tuple[Model, Array | None]:
        options: dict[str, Any] = {
            "categorical": categorical,
            "pos_power": self.pos_power,
            "rounds": self.rounds,
        }
        # No prior shift: weights and masks move outputs for new rows by far less than their logarithm.
        if self.masking is None:
            return fit_boosters(**inputs, **options), None
        return fit_masked_boosters(**inputs, **options, masking=self.masking)[0], None


def _checked(
    matrix: Matrix, targets: Array, categorical: Sequence[int]
) -> tuple[Matrix, npt.NDArray[np.int8]]:
    matrix = check_matrix(matrix, missing=True)
    if not all(0 <= column < matrix.shape[1] for column in categorical):
        raise ValueError(
            f"categorical columns must be from 0 to {matrix.shape[1] - 1}, got {list(categorical)}"
        )
    return matrix, as_targets(targets, matrix.shape[0])
