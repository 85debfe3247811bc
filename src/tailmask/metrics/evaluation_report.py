"""The result of an evaluation: values by name, for all classes together and per class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """Measures of one model on one test set: `summary` by name, `per_class` by name with shape (C,).

    A value that is not defined (the average precision of a class that is never present) is NaN, and null in
    JSON.

    >>> import torch
    >>> report = Report({"f1": 0.5, "ap": torch.nan}, {"f1": torch.tensor([0.25, 0.75])})
    >>> report.to_json()
    {'summary': {'f1': 0.5, 'ap': None}, 'per_class': {'f1': [0.25, 0.75]}}
    """

    summary: dict[str, float]
    per_class: dict[str, Tensor]

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers, with None for undefined values."""
        return {
            "summary": {name: _null_if_nan(value) for name, value in self.summary.items()},
            "per_class": {
                name: [_null_if_nan(value) for value in values.tolist()]
                for name, values in self.per_class.items()
            },
        }


def _null_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value
