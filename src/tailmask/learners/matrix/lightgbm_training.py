"""Training with LightGBM, label by label, with masks that may change between stretches of rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tailmask._util.cores import in_threads, num_threads
from tailmask._util.messages import require
from tailmask._util.seeds import derive
from tailmask.learners.matrices import Array, Matrix, is_sparse, prior_logits
from tailmask.learners.protocol import NEVER, Deadline

__all__ = ["InnerBoosters", "Keep", "LabelTrainer", "dealt", "learnable", "stretches_of"]

# Keep probabilities of a stretch of rounds: (2, C) float64.
Keep: TypeAlias = Array


def learnable(targets: Array) -> list[int]:
    """The labels with positives and negatives."""
    return np.flatnonzero((targets == 1).any(0) & (targets == 0).any(0)).tolist()


def stretches_of(rounds: int, keep: Sequence[Keep], *, num_classes: int) -> list[tuple[int, Keep]]:
    """Rounds and keep probabilities of each stretch; stretches without a round are left out."""
    keep = list(keep) or [np.ones((2, num_classes))]
    ends = np.arange(len(keep) + 1) * rounds // len(keep)
    return [(int(length), each) for length, each in zip(np.diff(ends), keep, strict=True) if length]


def dealt(labels: Sequence[int], threads: int | None) -> list[Sequence[int]]:
    """Parts of the labels, one per thread and none empty."""
    workers = min(threads or num_threads(), len(labels))
    return [labels[i::workers] for i in range(workers)]


@dataclass(frozen=True)
class LabelTrainer:
    """LightGBM on one thread, with the rows binned once for all labels."""

    matrix: Matrix
    rows: Any  # lightgbm.Dataset, constructed
    parameters: Mapping[str, Any]
    seed: int

    @classmethod
    def of(cls, matrix: Matrix, categorical: Sequence[int], *, seed: int) -> LabelTrainer:
        """The trainer for a matrix whose columns in `categorical` hold category codes."""
        lightgbm = require("lightgbm", extra="cli")
        # The first two were chosen by out-of-fold scores on emotions, yeast, scene, medical and enron
        # (seed 0; mean F1 with thresholds / mAP): 50.9 / 54.5, and 48.7 / 51.8 with LightGBM's defaults. The
        # filter drops columns before it sees a label: on medical, with many rare words, that costs 7 points.
        # Leaves of 2 rows were 2 points better on medical, and 1 point of mAP worse on emotions. On emotions
        # alone, there was no clear difference with 50 rounds, with 200 rounds at half the learning rate, or
        # with 7 or 31 leaves.
        parameters = {
            "feature_pre_filter": False,
            "feature_fraction": 0.5,
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
        if is_sparse(matrix):  # LightGBM warns about scipy's newer class
            matrix = require("scipy.sparse", extra="cli").csr_matrix(matrix)
        rows = lightgbm.Dataset(
            matrix,
            np.zeros(matrix.shape[0], dtype=np.float32),
            categorical_feature=list(categorical),
            params=parameters,
        )
        return cls(matrix, rows.construct(), parameters, seed)

    def train(
        self,
        label: int,
        targets: Array,
        *,
        stretches: Sequence[tuple[int, Keep]],
        pos_power: float,
        deadline: Deadline,
    ) -> list[str]:
        """The texts of one label's models. Each model continues the one before it."""
        texts: list[str] = []
        scores = None
        for number, (rounds, negatives, positives) in enumerate(_merged(stretches, label)):
            booster = self.boost(
                targets,
                rounds=rounds,
                keep=(negatives, positives),
                scores=scores,
                pos_power=pos_power,
                mask_seed=derive(self.seed, "masks", label, number),
                deadline=deadline,
            )
            texts.append(booster.model_to_string(num_iteration=-1))
            if deadline.passed:
                break
            more = booster.predict(self.matrix, raw_score=True)
            scores = more if scores is None else scores + more
        return texts

    def boost(
        self,
        targets: Array,
        *,
        rounds: int,
        keep: tuple[float, float],
        scores: Array | None,
        pos_power: float,
        mask_seed: int,
        deadline: Deadline = NEVER,
    ) -> Any:
        """A booster of one label that starts from raw scores (N,), by default from the prevalence."""
        known = np.flatnonzero(targets >= 0)
        rows = self.rows if len(known) == len(targets) else self.rows.subset(known).construct()
        rows.set_label(targets[known].astype(np.float32))
        rows.set_field("init_score", None if scores is None else scores[known])
        positives = int((targets == 1).sum())
        parameters = {**self.parameters, "scale_pos_weight": (len(known) / positives - 1) ** pos_power}
        if scores is not None:  # otherwise each stretch would draw the same columns
            parameters["feature_fraction_seed"] = mask_seed % 2**31
        is_masked = min(keep) < 1
        if is_masked:
            parameters |= {
                "bagging_freq": 1,
                "neg_bagging_fraction": keep[0],
                "pos_bagging_fraction": keep[1],
                "bagging_seed": mask_seed % 2**31,
            }
        booster = require("lightgbm", extra="cli").Booster(parameters, rows)
        for _ in range(rounds):
            is_exhausted = booster.update() and not is_masked  # other masks may leave enough for a split
            if is_exhausted or deadline.passed:
                break
        return booster


def _merged(stretches: Sequence[tuple[int, Keep]], label: int) -> list[tuple[int, float, float]]:
    """Rounds and keep probabilities of one label, with equal neighbours merged.

    LightGBM cannot change the fractions of a booster after its first round: `reset_parameter` keeps the old
    masks, or fails if the share of drawn rows crosses one half. So a new booster starts when they change.
    """
    merged: list[tuple[int, float, float]] = []
    for rounds, keep in stretches:
        negatives, positives = float(keep[0, label]), float(keep[1, label])
        if merged and merged[-1][1:] == (negatives, positives):
            rounds += merged.pop()[0]
        merged.append((rounds, negatives, positives))
    return merged


@dataclass(frozen=True)
class InnerBoosters:
    """Boosters of all labels that train without the held-out rows, and their raw scores so far."""

    targets: Array  # (N, C), unknown in the rows that are held out
    trainers: Sequence[tuple[LabelTrainer, Sequence[int]]]  # each trainer with its labels
    scores: npt.NDArray[np.float64]  # (N, C)

    @classmethod
    def of(
        cls,
        matrix: Matrix,
        targets: Array,
        held: npt.NDArray[np.int64],
        *,
        categorical: Sequence[int],
        seed: int,
        threads: int | None,
    ) -> InnerBoosters:
        """Boosters without trees yet; the rows in `held` are held out."""
        targets = targets.copy()
        targets[held] = -1
        trainers = in_threads(
            lambda labels: (LabelTrainer.of(matrix, categorical, seed=seed), labels),
            dealt(learnable(targets), threads),
            threads,
        )
        return cls(targets, trainers, np.tile(prior_logits(targets), (len(targets), 1)))

    def boost(self, *, rounds: int, keep: Keep, stretch: int, pos_power: float) -> None:
        """Train more rounds of each label."""

        def work(part: tuple[LabelTrainer, Sequence[int]]) -> None:
            trainer, labels = part
            for label in labels:
                booster = trainer.boost(
                    self.targets[:, label],
                    rounds=rounds,
                    keep=(float(keep[0, label]), float(keep[1, label])),
                    scores=self.scores[:, label],
                    pos_power=pos_power,
                    mask_seed=derive(trainer.seed, "masks", label, stretch),
                )
                self.scores[:, label] += booster.predict(trainer.matrix, raw_score=True)

        in_threads(work, self.trainers, len(self.trainers))
