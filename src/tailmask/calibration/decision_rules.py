"""Decision rules: F1, a precision, a recall, a cost of misses, or a number of labels per sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.calibration.thresholds import (
    BOUND,
    SHRINKAGE,
    best_on_grid,
    check_labels,
    counts_above,
    fit_shared_threshold,
    fit_thresholds,
    logit,
)

__all__ = ["DecisionRule"]

Kind = Literal["f1", "precision", "recall", "cost", "top"]
_FORMS = "f1, precision=0.9, recall=0.8, cost=5 or top=3"


@dataclass(frozen=True)
class DecisionRule:
    """The goal that the thresholds of the classes are fitted for.

    - `f1`: the highest F1 of each class;
    - `precision=0.9`: the highest recall among the thresholds with at least this precision;
    - `recall=0.8`: the highest precision among the thresholds with at least this recall;
    - `cost=5`: the lowest cost if a miss costs as much as five false alarms;
    - `top=3`: no thresholds; each sample gets its three most probable labels.

    If no threshold of a class reaches the precision, the class gets the one that comes nearest.

    >>> rule = DecisionRule.parse("precision=0.9")
    >>> print(rule), rule.value
    precision=0.9
    (None, 0.9)
    >>> probabilities = torch.tensor([[0.9], [0.6], [0.5], [0.1]])
    >>> targets = torch.tensor([[1], [0], [1], [0]])
    >>> thresholds = rule.fit(probabilities, targets)
    >>> rule.labels(probabilities, thresholds).flatten()
    tensor([ True, False, False, False])
    """

    kind: Kind = "f1"
    value: float | None = None

    def __post_init__(self) -> None:
        value = self.value
        is_number = isinstance(value, int | float) and math.isfinite(value)
        valid = {
            "f1": value is None,
            "precision": is_number and 0 < float(value or 0) <= 1,
            "recall": is_number and 0 < float(value or 0) <= 1,
            "cost": is_number and float(value or 0) > 0,
            "top": is_number and float(value or 0) >= 1 and float(value or 0).is_integer(),
        }
        if self.kind not in valid:
            raise UserError(f"a decision rule is {_FORMS}, got {self.kind!r}")
        if not valid[self.kind]:
            expected = {
                "f1": "f1 takes no number",
                "precision": "precision takes a number above 0 and up to 1",
                "recall": "recall takes a number above 0 and up to 1",
                "cost": "cost takes a number above 0",
                "top": "top takes a whole number of 1 or more",
            }
            raise UserError(f"{expected[self.kind]}, got {self}: write {_FORMS}")

    @classmethod
    def parse(cls, text: str | DecisionRule) -> DecisionRule:
        """The rule of a text such as `recall=0.8`.

        >>> DecisionRule.parse("top=0")
        Traceback (most recent call last):
        tailmask._util.messages.UserError: top takes a whole number of 1 or more, got top=0: write f1, ...
        """
        if isinstance(text, DecisionRule):
            return text
        word, _, number = str(text).partition("=")
        if word not in get_args(Kind):
            raise UserError(f"a decision rule is {_FORMS}, got {text!r}")
        try:
            value = float(number) if number else None
        except ValueError:
            raise UserError(f"{word} takes a number, got {number!r}: write {_FORMS}") from None
        return cls(word, value)  # type: ignore[arg-type]  # checked above

    def __str__(self) -> str:
        return self.kind if self.value is None else f"{self.kind}={self.value:g}"

    @property
    def top(self) -> int | None:
        """The number of labels that each sample gets; None if thresholds decide."""
        return int(self.value) if self.kind == "top" and self.value is not None else None

    def fit(self, probabilities: Tensor, targets: Tensor, *, shrinkage: float = SHRINKAGE) -> Tensor | None:
        """Thresholds (C,) from validation probabilities and targets (N, C); unknown labels are left out.

        As in `fit_thresholds`, a class with n positives gets the average of its own threshold and one for all
        classes, with weights n and `shrinkage`. For a precision or a recall, averaging only moves a threshold
        to the safe side: up for a precision, down for a recall. None for `top`, which has no thresholds.
        """
        if self.kind == "f1":
            return fit_thresholds(probabilities, targets, shrinkage=shrinkage)
        if self.top is not None:
            return None
        probabilities, known, present = check_labels(probabilities, targets)
        shared = self.shared_cut(probabilities, targets)
        thresholds = np.empty(probabilities.shape[1])
        for index in range(len(thresholds)):
            rows = known[:, index]
            scores = logit(probabilities[rows, index].cpu().numpy())
            labels = present[rows, index].cpu().numpy()
            own = self._best_cut(scores, labels, shared) if labels.any() else shared
            cut = self.shrunk(own, shared, float(labels.sum()), shrinkage)
            thresholds[index] = 1.0 / (1.0 + math.exp(-float(cut)))
        return torch.from_numpy(thresholds).to(probabilities)

    def labels(self, probabilities: Tensor, thresholds: Tensor | None) -> Tensor:
        """Which labels are predicted (N, C), from probabilities (or, for `top`, any scores).

        >>> DecisionRule("top", 1).labels(torch.tensor([[0.2, 0.7], [0.4, 0.1]]), None)
        tensor([[False,  True],
                [ True, False]])
        """
        if self.top is None:
            assert thresholds is not None
            return probabilities >= thresholds.to(probabilities)
        best = probabilities.topk(min(self.top, probabilities.shape[1]), dim=1).indices
        return torch.zeros_like(probabilities, dtype=torch.bool).scatter_(1, best, True)

    def merit(self, hits: Any, alarms: Any, positives: Any) -> Any:
        """The merit of cuts, from their true positives, false positives and all positives; higher is better.

        >>> DecisionRule("cost", 5.0).merit(np.array([1, 2]), np.array([0, 6]), 2)
        array([-5., -6.])
        """
        if self.kind == "cost" and self.value is not None:
            return -(self.value * (positives - hits) + alarms)
        if self.value is None:
            return 2.0 * hits / np.maximum(hits + alarms + positives, 1e-12)
        precision = hits / np.maximum(hits + alarms, 1e-12)
        recall = hits / np.maximum(positives, 1e-12)
        held, free = (precision, recall) if self.kind == "precision" else (recall, precision)
        # Shares are sums of floats: one that misses the number by rounding has reached it.
        return np.where(held >= self.value - 1e-9, 1.0 + free, held)

    def shared_cut(self, probabilities: Tensor, targets: Tensor) -> float:
        """Logit of one threshold for all classes, in which each class with positives counts the same."""
        if self.kind == "f1":
            shared = fit_shared_threshold(probabilities, targets)
            return math.log(shared) - math.log1p(-shared)
        probabilities, known, present = check_labels(probabilities, targets)
        blocks = []
        for above in counts_above(probabilities, known, present):  # (2, c, steps)
            positives = above[1, :, 0]
            weights = positives.double().reciprocal().where(positives > 0, 0.0)
            blocks.append((above * weights[:, None]).sum(dim=1))
        classes = int(present.any(dim=0).sum())
        if classes == 0:
            return 0.0
        alarms, hits = torch.stack(blocks).sum(dim=0).cpu().numpy()  # (steps,)
        return best_on_grid(torch.from_numpy(np.asarray(self.merit(hits, alarms, float(classes)))))

    def shrunk(self, own: Any, shared: float, positives: Any, shrinkage: float) -> Any:
        """A class's own cut drawn towards the shared one, both logits; arrays or numbers."""
        weight = positives / (positives + shrinkage) if shrinkage > 0 else np.ones_like(positives)
        if math.isinf(shrinkage):
            weight = np.zeros_like(positives)
        cut = shared + weight * (np.clip(own, -BOUND, BOUND) - shared)
        if self.kind == "precision":
            return np.where(positives > 0, np.maximum(own, cut), shared)
        if self.kind == "recall":
            return np.where(positives > 0, np.minimum(own, cut), shared)
        return np.where(positives > 0, cut, shared)

    def _best_cut(self, scores: NDArray[np.float64], labels: NDArray[np.bool_], shared: float) -> float:
        """Logit of one class's best cut, halfway between two scores; of equals, the nearest to `shared`."""
        order = np.argsort(-scores, kind="stable")
        ranked, present = scores[order], labels[order]
        ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))  # the last one of equal scores
        hits = np.append(0, np.cumsum(present)[ends])
        alarms = np.append(0, np.cumsum(~present)[ends])
        lower = np.append(ranked[ends[:-1] + 1], ranked[-1])
        cuts = np.append((ranked[0] + max(ranked[0], BOUND)) / 2 + 1e-6, (ranked[ends] + lower) / 2)
        merit = self.merit(hits, alarms, float(labels.sum()))
        best = np.flatnonzero(merit >= merit.max() - 1e-12)
        return float(cuts[best[np.abs(cuts[best] - shared).argmin()]])
