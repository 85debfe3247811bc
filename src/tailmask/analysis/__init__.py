"""From finished runs to an answer: tables, paired intervals, gains by class, and a plain sentence.

`compare_runs` reads run folders and gives a `Comparison`; nothing here trains or draws.
"""

from __future__ import annotations

from tailmask.analysis.compare import compare_runs
from tailmask.analysis.comparison import ClassGain, Comparison, Difference, Row
from tailmask.analysis.experiment import Experiment, arrange
from tailmask.analysis.intervals import PairedDifferences

__all__ = [
    "ClassGain",
    "Comparison",
    "Difference",
    "Experiment",
    "PairedDifferences",
    "Row",
    "arrange",
    "compare_runs",
]
