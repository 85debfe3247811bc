"""Ensembles: arms on one scale, then greedy selection with replacement (Caruana et al. 2004).

An arm is one of the models that an ensemble combines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask._util.seeds import derive
from tailmask.data.rows import Rows
from tailmask.learners.folds import Folds
from tailmask.learners.matrices import Array
from tailmask.learners.platt_scaling import PlattScaling, crossfit_platt, fit_platt
from tailmask.learners.protocol import Fitted
from tailmask.learners.stored_models import Stored, save_fitted, take

__all__ = ["Combination", "Ensemble", "EnsembleFit", "fit_combination", "fit_ensemble", "score"]

_BAGS, _MOST_ROWS = 8, 20_000  # bootstrap samples, and the most rows in one
_STEPS, _PATIENCE = 30, 4  # the most members, and the steps without a gain that end the selection


@dataclass(frozen=True, eq=False)
class Combination:
    """The combination of A arms' logits into one: Σ weight · (slope · logit + offset)."""

    weights: npt.NDArray[np.float64]  # (A,): ≥ 0, with the sum 1
    slopes: npt.NDArray[np.float64]  # (A, C): Platt scaling of each arm
    offsets: npt.NDArray[np.float64]  # (A, C)

    def calibrated(self, scaling: PlattScaling) -> Combination:
        """The combination whose logits are scaled once more, by slopes and offsets (C,)."""
        return Combination(
            self.weights, self.slopes * scaling.slopes, self.offsets * scaling.slopes + scaling.offsets
        )

    def apply(self, outputs: Sequence[Tensor]) -> Tensor:
        """The combined logits (N, C) in float32, from the logits (N, C) of each arm."""
        total = torch.zeros(outputs[0].shape, dtype=torch.float64)
        for weight, slope, offset, logits in zip(
            self.weights, self.slopes, self.offsets, outputs, strict=True
        ):
            total += float(weight) * (logits.double() * torch.from_numpy(slope) + torch.from_numpy(offset))
        return total.float()


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Fitted arms and how they are combined."""

    parts: tuple[Fitted, ...]
    combination: Combination

    def logits(self, rows: Rows) -> Tensor:
        """The combined logits (N, C)."""
        return self.combination.apply([part.logits(rows) for part in self.parts])

    def save(self, folder: Path) -> None:
        """Write the combination, and each arm into its own folder."""
        arrays = {name: getattr(self.combination, name) for name in ("weights", "slopes", "offsets")}
        save_fitted(folder, "ensemble", fields={}, arrays=arrays, parts=self.parts)

    @classmethod
    def from_stored(cls, stored: Stored) -> Ensemble:
        """The ensemble from what `save` wrote."""
        arms = len(stored.parts)
        weights = take(stored.arrays, "weights", dtype=np.float64, shape=(arms,))
        slopes = take(stored.arrays, "slopes", dtype=np.float64, shape=(arms, None))
        offsets = take(stored.arrays, "offsets", dtype=np.float64, shape=slopes.shape)
        if not arms or (weights < 0).any() or abs(weights.sum() - 1) > 1e-6 or (slopes <= 0).any():
            raise UserError("the stored weights of the ensemble are damaged: fit it again")
        return cls(stored.parts, Combination(weights, slopes, offsets))


@dataclass(frozen=True, eq=False)
class EnsembleFit:
    """The result of `fit_ensemble`."""

    combination: Combination  # of all arms; an unused arm has the weight 0
    logits: Tensor  # (N, C): out of fold, scaling and selection too; NaN if no fold covers a row

    def ensemble(self, parts: Callable[[int], Fitted]) -> Ensemble:
        """The ensemble of the arms with a weight above 0; `parts` gives the fitted model of an arm."""
        kept = np.flatnonzero(self.combination.weights).tolist()
        whole = self.combination
        return Ensemble(
            tuple(parts(arm) for arm in kept),
            Combination(whole.weights[kept], whole.slopes[kept], whole.offsets[kept]),
        )


def fit_ensemble(outputs: Sequence[Tensor], targets: Array, folds: Folds, *, seed: int) -> EnsembleFit:
    """Combine the out-of-fold logits (N, C) of arms that share their folds; the result is calibrated.

    The ensemble's own out-of-fold logits come from an outer loop: for each fold, scaling and selection use
    only the other folds. So its score can be compared with the score of an arm.

    >>> targets = np.tile([[1], [0]], (10, 1)).astype(np.int8)
    >>> arms = [torch.from_numpy(targets - 0.5).float() * scale for scale in (2, -2)]
    >>> fit_ensemble(arms, targets, Folds(np.arange(20) // 4, 5), seed=0).combination.weights.tolist()
    [1.0, 0.0]
    """
    rare = folds.rare_classes(targets)
    covered = folds.covered
    rows = torch.from_numpy(covered)
    outputs, known, number = [each[rows] for each in outputs], targets[covered], folds.number[covered]

    def combine(index: npt.NDArray[np.bool_]) -> Combination:
        chosen = [each[torch.from_numpy(index)] for each in outputs]
        labels, parts = known[index], number[index]
        found = fit_combination(chosen, labels, parts, rare=rare, seed=seed)
        return found.calibrated(fit_platt(found.apply(chosen), labels, rare=rare))

    logits = torch.full(targets.shape, torch.nan)
    for fold in np.unique(number):
        held_out = torch.from_numpy(number == fold)
        logits[covered[number == fold]] = combine(number != fold).apply([each[held_out] for each in outputs])
    return EnsembleFit(combine(np.ones(len(number), dtype=np.bool_)), logits)


def fit_combination(
    outputs: Sequence[Tensor],
    targets: Array,
    number: npt.NDArray[np.int64],
    *,
    rare: Sequence[int],
    seed: int,
) -> Combination:
    """Put the arms' out-of-fold logits on one scale and select weights on them.

    Weights are selected on bootstrap samples of the rows, with cross-fitted Platt scalings and without the
    rare classes, and then averaged. If the average scores worse than the best arm, only that arm is used.
    The returned scalings are fitted on all given rows.

    >>> targets = np.tile([[1], [0]], (10, 1)).astype(np.int8)
    >>> outputs = [torch.from_numpy(targets - 0.5) * scale for scale in (2, -2)]
    >>> fit_combination(outputs, targets, np.arange(20) // 4, rare=(), seed=0).weights.tolist()
    [1.0, 0.0]
    """
    others = np.setdiff1d(np.arange(targets.shape[1]), rare)
    voters = others if len(others) else np.arange(targets.shape[1])
    scaled = torch.stack(
        [crossfit_platt(each, targets, number, rare=rare)[:, torch.from_numpy(voters)] for each in outputs]
    )
    labels = torch.from_numpy(targets[:, voters])

    generator = np.random.default_rng(derive(seed, "bags"))
    bagged = np.zeros(len(outputs))
    for _ in range(_BAGS):
        rows = torch.from_numpy(generator.integers(0, len(targets), min(len(targets), _MOST_ROWS)))
        bagged += _select(scaled[:, rows], labels[rows]) / _BAGS

    def value(weights: npt.NDArray[np.float64]) -> float:
        return score(torch.einsum("a,anc->nc", torch.from_numpy(weights), scaled), labels)

    alone = np.eye(len(outputs))
    best = max(alone, key=value)
    scalings = [fit_platt(each, targets, rare=rare) for each in outputs]
    return Combination(
        bagged if value(bagged) >= value(best) else best,
        np.stack([each.slopes for each in scalings]),
        np.stack([each.offsets for each in scalings]),
    )


def score(logits: Tensor, targets: Tensor) -> float:
    """The score that a selection maximises: minus the mean log-loss of known labels.

    >>> score(torch.zeros(2, 1), torch.tensor([[1], [-1]]))
    -0.693...
    """
    losses = torch.nn.functional.softplus(torch.where(targets == 1, -logits, logits))
    return -float(losses[targets >= 0].mean().nan_to_num())


def _select(scaled: Tensor, targets: Tensor) -> npt.NDArray[np.float64]:
    """Weights (A,) by greedy selection with replacement, starting from the best arm; logits are (A, N, C)."""
    counts: npt.NDArray[np.float64] = np.zeros(len(scaled))
    total = torch.zeros_like(scaled[0])
    best_score, best_counts, idle = -np.inf, counts, 0
    for size in range(1, _STEPS + 1):
        scores = [score((total + arm) / size, targets) for arm in scaled]
        added = int(np.argmax(scores))
        counts = counts + np.eye(len(scaled))[added]
        total = total + scaled[added]
        if scores[added] > best_score:
            best_score, best_counts, idle = scores[added], counts, 0
        else:
            idle += 1
        if idle == _PATIENCE:
            break
    weights: npt.NDArray[np.float64] = best_counts / best_counts.sum()
    return weights
