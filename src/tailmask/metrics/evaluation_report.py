"""The result of an evaluation: values by name, for all classes together and per class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """Measures of one model on one test set: `summary` by name, `per_class` by name with shape (C,).

    A value that is not defined (the average precision of a class that is never present) is NaN, and null in
    JSON.

    >>> report = Report({"f1": 0.5, "ap": torch.nan}, {"f1": torch.tensor([0.25, 0.75])})
    >>> report.to_json()
    {'summary': {'f1': 0.5, 'ap': None}, 'per_class': {'f1': [0.25, 0.75]}}
    >>> Report.from_json(report.to_json()).summary
    {'f1': 0.5, 'ap': nan}
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

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Report:
        """The report that `to_json` wrote."""
        summary = {name: _nan_if_null(number) for name, number in value["summary"].items()}
        per_class = {}
        for name, numbers in value["per_class"].items():
            whole = all(isinstance(number, int) for number in numbers)
            dtype = torch.int64 if whole else torch.float64
            per_class[name] = torch.tensor([_nan_if_null(number) for number in numbers], dtype=dtype)
        return cls(summary, per_class)


def _null_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _nan_if_null(value: float | None) -> float:
    return math.nan if value is None else value
