"""From finished runs to an answer: tables, paired intervals, gains by class, and a verdict.

`compare_runs` reads run folders and returns a `Comparison`; nothing here trains or draws.
"""

from __future__ import annotations

from tailmask.comparison.arrangement import Experiment, arrange
from tailmask.comparison.compared_runs import compare_runs
from tailmask.comparison.comparison_result import (
    Choice,
    ClassGain,
    Comparison,
    Difference,
    Row,
    ValidationScore,
)
from tailmask.comparison.intervals import PairedDifferences

__all__ = [
    "Choice",
    "ClassGain",
    "Comparison",
    "Difference",
    "Experiment",
    "PairedDifferences",
    "Row",
    "ValidationScore",
    "arrange",
    "compare_runs",
]
