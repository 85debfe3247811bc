"""Permutation importance of the features: how much each label's average precision drops without a column.

The columns are those of the user's table, before any encoding. Their values are shuffled among rows that the
model did not train on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tailmask._util.messages import require
from tailmask._util.seeds import derive
from tailmask.data.row_formats import ArrayFormat, TableFormat
from tailmask.data.rows import Features, RawData, Rows, is_sparse
from tailmask.learners.cross_fitting import FoldModels
from tailmask.learners.ensemble import Ensemble
from tailmask.learners.folds import Folds
from tailmask.learners.protocol import Fitted
from tailmask.metrics.precision_recall import average_precision

__all__ = ["FeatureImportance", "Importance", "feature_importance"]

MOST_FEATURES = 200
MOST_REPEATS = 5
# The total number of predicted rows, over features and repeats. If there are more rows, a sample is used. The
# sample has at least the second number of rows, because rare labels need rows.
MOST_PREDICTIONS, LEAST_ROWS = 100_000, 500

# A feature may be a leak if two things are true. It carries this share of a label's lift over its prevalence,
# and the label has at least half of the largest possible lift. With fewer positives it may be chance.
LEAK_SHARE, LEAST_LIFT, LEAST_POSITIVES = 0.9, 0.5, 5


@dataclass(frozen=True)
class FeatureImportance:
    """The drop in average precision if one feature is shuffled: shares of 1, the mean over the repeats."""

    feature: str
    map_drop: float  # over the labels that have a positive among the rows
    drops: tuple[float | None, ...]  # of each label; None if it has no positive among the rows
    may_leak: tuple[str, ...] = ()  # labels that depend almost only on this feature


@dataclass(frozen=True)
class Importance:
    """The result of `feature_importance`; the most important features come first."""

    features: tuple[FeatureImportance, ...] = ()
    labels: tuple[str, ...] = ()
    average_precision: tuple[float | None, ...] = ()  # of each label, with nothing shuffled
    rows: int = 0
    repeats: int = 0
    note: str = ""  # which rows or features were left out, or why there is no importance

    def top(self, label: str) -> list[tuple[str, float]]:
        """The three features with the largest drops of one label, if the drop is at least one point.

        >>> drops = FeatureImportance("age", 0.1, (0.2, 0.0)), FeatureImportance("size", 0.0, (0.001, 0.0))
        >>> Importance(drops, labels=("a", "b")).top("a")
        [('age', 0.2)]
        """
        place = self.labels.index(label)
        drops = [(each.feature, each.drops[place] or 0.0) for each in self.features]
        return sorted((each for each in drops if each[1] >= 0.01), key=lambda each: -each[1])[:3]

    def leaks(self) -> list[str]:
        """A sentence about each feature that may be a leak."""
        return [
            f"the predictions of {', '.join(each.may_leak)} depend almost only on {each.feature!r}, which "
            "may be a leak: if it is not known before the label, leave it out"
            for each in self.features
            if each.may_leak
        ]


def feature_importance(
    fitted: Fitted, raw: RawData, folds: Folds, *, labels: Sequence[str], seed: int
) -> Importance:
    """Shuffle one column of the raw rows at a time, and measure the drop in average precision of each label.

    Each row is predicted by the models of its fold, which did not train on it. If folds go forward in time,
    the whole model predicts the test rows. A text column is shuffled as a whole.
    """
    models = None if folds.forward else _fold_models(fitted, folds.count)
    if models is None:
        rows, number, models = raw.test, np.zeros(len(raw.test), dtype=np.int64), [fitted]
    else:
        rows, number = raw.development.take(folds.covered), folds.number[folds.covered]
    names = _names(rows)
    if not names:
        return Importance(note="features of a pretrained model have no names, so no importance was computed")
    notes = []
    columns = np.arange(len(names))
    if len(names) > MOST_FEATURES:
        if hasattr(rows.features, "columns"):
            return Importance(
                note=f"no importance was computed: {len(names)} columns are more than {MOST_FEATURES}"
            )
        columns = _promising(rows)
        notes.append(f"only the {MOST_FEATURES} of {len(names)} features that correlate most with a label")
    rng = np.random.default_rng(derive(seed, "importance"))
    wanted = max(LEAST_ROWS, MOST_PREDICTIONS // len(columns))
    if len(rows) > wanted:
        notes.append(f"{wanted} of {len(rows)} rows, at random")
        sample = np.sort(rng.choice(len(rows), wanted, replace=False))
        rows, number = rows.take(sample), number[sample]
    repeats = int(np.clip(MOST_PREDICTIONS // (len(rows) * len(columns)), 1, MOST_REPEATS))

    def precision(features: Features) -> Tensor:
        return average_precision(_logits(models, replace(rows, features=features), number), targets)

    targets = torch.from_numpy(rows.labelled)
    whole = precision(rows.features)  # (C,)
    found = []
    for column in columns.tolist():
        values = [precision(_shuffled(rows.features, column, rng)) for _ in range(repeats)]
        drop = whole - torch.stack(values).mean(0)
        leaks = [labels[c] for c in _carried(drop, whole, targets)]
        mean = float(drop.nanmean().nan_to_num())
        found.append(FeatureImportance(names[column], mean, _optional(drop), tuple(leaks)))
    found.sort(key=lambda each: -each.map_drop)
    return Importance(tuple(found), tuple(labels), _optional(whole), len(rows), repeats, "; ".join(notes))


def _names(rows: Rows) -> tuple[str, ...]:
    """The names of the columns; "feature 0" and so on for an array; none for features of a pretrained model.

    >>> _names(Rows(np.zeros((1, 2)), format=ArrayFormat("X", 2)))
    ('feature 0', 'feature 1')
    """
    if isinstance(rows.format, TableFormat):
        return tuple(rows.features.columns)
    if not isinstance(rows.format, ArrayFormat):
        return ()
    return rows.format.names or tuple(f"feature {number}" for number in range(rows.format.num_features))


def _fold_models(fitted: Fitted, count: int) -> list[Fitted] | None:
    """The model of each fold; None if the fold models were not kept."""
    if isinstance(fitted, Ensemble):
        parts = [_fold_models(part, count) for part in fitted.parts]
        kept = [part for part in parts if part is not None]
        if len(kept) < len(parts):
            return None
        return [Ensemble(tuple(models), fitted.combination) for models in zip(*kept, strict=True)]
    if isinstance(fitted, FoldModels):
        return list(fitted.parts) if len(fitted.parts) == count else None
    return [fitted] if count == 1 else None


def _logits(models: Sequence[Fitted], rows: Rows, number: npt.NDArray[np.int64]) -> Tensor:
    """The logits (N, C) of each row by the model of its fold."""
    logits = torch.empty(rows.labelled.shape)
    for fold, model in enumerate(models):
        held_out = np.flatnonzero(number == fold)
        if len(held_out):
            logits[torch.from_numpy(held_out)] = model.logits(rows.take(held_out))
    return logits


def _shuffled(features: Features, column: int, rng: np.random.Generator) -> Features:
    """The features with one column shuffled."""
    order = rng.permutation(features.shape[0])
    if hasattr(features, "columns"):
        return features.with_columns(features[features.columns[column]][order])
    if not is_sparse(features):
        changed = features.copy()
        changed[:, column] = changed[order, column]
        return changed
    changed = features.tocsc().copy()
    part = slice(changed.indptr[column], changed.indptr[column + 1])
    changed.indices[part] = order[changed.indices[part]]
    changed.has_sorted_indices = False
    return changed.tocsr()


def _promising(rows: Rows) -> npt.NDArray[np.int64]:
    """The features of an array with the highest correlation with any label, in absolute value."""
    labels = np.where(rows.labelled >= 0, rows.labelled, 0).astype(np.float64)
    labels = labels - labels.mean(0)
    values: Any = rows.features
    if is_sparse(values):
        values = require("scipy.sparse", extra="cli").csr_array(values, dtype=np.float64)
        squares = np.asarray(values.multiply(values).mean(0)).ravel()
    else:
        values = np.nan_to_num(np.asarray(values, dtype=np.float64), posinf=0.0, neginf=0.0)
        squares = (values**2).mean(0)
    means = np.asarray(values.mean(0)).ravel()
    spread = np.sqrt(np.maximum(squares - means**2, 0))[:, None] * labels.std(0)
    products = abs(np.asarray(values.T @ labels)) / len(labels)
    strength = np.divide(products, spread, out=np.zeros_like(products), where=spread > 1e-12)
    return np.sort(np.argsort(-strength.max(1), kind="stable")[:MOST_FEATURES])


def _carried(drop: Tensor, whole: Tensor, targets: Tensor) -> list[int]:
    """The labels that depend almost only on a feature with these drops (C,)."""
    positives, known = (targets == 1).sum(0), (targets >= 0).sum(0)
    prevalence = positives / known.clamp(min=1)
    lift = whole - prevalence
    is_carried = (
        (positives >= LEAST_POSITIVES) & (lift >= LEAST_LIFT * (1 - prevalence)) & (drop >= LEAK_SHARE * lift)
    )
    return [int(c) for c in is_carried.nonzero().flatten()]


def _optional(values: Tensor) -> tuple[float | None, ...]:
    return tuple(None if value != value else value for value in values.tolist())
