"""A prior shift and thresholds kept together, as they are stored beside a model's weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tailmask.calibration.prior_shift import apply_prior_shift
from tailmask.calibration.thresholds import SHRINKAGE, fit_thresholds

__all__ = ["Calibration"]


@dataclass(frozen=True, eq=False)
class Calibration:
    """A prior shift and a threshold for each class, (C,) both, which turn a model's logits into decisions.

    >>> calibration = Calibration(prior_shift=torch.tensor([0.0, -1.0]), thresholds=torch.tensor([0.5, 0.4]))
    >>> calibration.predict(torch.tensor([[0.1, 0.1], [-0.1, 0.9]]))
    tensor([[ True, False],
            [False,  True]])
    >>> Calibration.from_json(calibration.to_json()).thresholds
    tensor([0.5000, 0.4000])
    """

    prior_shift: Tensor
    thresholds: Tensor

    def __post_init__(self) -> None:
        if self.prior_shift.ndim != 1 or self.prior_shift.shape != self.thresholds.shape:
            raise ValueError(
                "prior shift and thresholds must have the same shape (C,), got "
                f"{tuple(self.prior_shift.shape)} and {tuple(self.thresholds.shape)}"
            )
        if not (self.prior_shift.isfinite().all() and self.thresholds.isfinite().all()):
            raise ValueError("prior shift and thresholds must be finite numbers")

    @classmethod
    def fit(
        cls,
        logits: Tensor,
        targets: Tensor,
        *,
        prior_shift: Tensor | None = None,
        shrinkage: float = SHRINKAGE,
    ) -> Calibration:
        """Thresholds fitted by `fit_thresholds` to validation logits, shifted first if there is a shift."""
        shift = (
            logits.new_zeros(logits.shape[-1], dtype=torch.float32) if prior_shift is None else prior_shift
        )
        probabilities = apply_prior_shift(logits.float(), shift).sigmoid()
        return cls(shift, fit_thresholds(probabilities, targets, shrinkage=shrinkage))

    def probabilities(self, logits: Tensor) -> Tensor:
        """Probabilities that hold for the prevalence of the data."""
        return apply_prior_shift(logits.float(), self.prior_shift).sigmoid()

    def predict(self, logits: Tensor) -> Tensor:
        """Which labels are predicted: those whose probability is at least their threshold."""
        return self.probabilities(logits) >= self.thresholds.to(logits.device)

    def to_json(self) -> dict[str, list[float]]:
        """Plain lists, which read back to the same numbers in float32, as the probabilities are."""
        return {"prior_shift": self.prior_shift.tolist(), "thresholds": self.thresholds.tolist()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Calibration:
        """The calibration that `to_json` wrote."""
        missing = {"prior_shift", "thresholds"} - (value.keys() if isinstance(value, dict) else set())
        if missing:
            raise ValueError(
                f"a calibration needs prior_shift and thresholds, got no {' and no '.join(sorted(missing))}"
            )
        try:
            shift, thresholds = (
                torch.tensor(value[name], dtype=torch.float32) for name in ("prior_shift", "thresholds")
            )
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise ValueError(f"prior_shift and thresholds must be lists of numbers: {error}") from error
        return cls(shift, thresholds)
