"""Metrics of predictions: per class, per sample, for groups of rare and frequent classes, and on average.

`evaluate` computes all measures at once; the other functions are the single measures. Unknown labels (−1 or
NaN) are left out everywhere, and 0/0 is 0 in precision, recall and F1.

The values equal those of torchmetrics and scikit-learn. This package adds what both lack: unknown labels in
every measure, ranks by logits, and ties that favour no class. `StreamingMetrics` is a torchmetrics metric;
torchmetrics is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailmask.metrics.bootstrap import bootstrap_weights
from tailmask.metrics.classwise import Confusion, class_confusion, confusion
from tailmask.metrics.evaluation import Evaluation, evaluate
from tailmask.metrics.evaluation_report import Report
from tailmask.metrics.precision_recall import average_precision
from tailmask.metrics.ranking import ndcg_at, precision_at, ranking_loss
from tailmask.metrics.rare_and_frequent import class_groups
from tailmask.metrics.reliability import brier_score, calibration_error
from tailmask.metrics.samplewise import exact_match, mean_over_samples, sample_f1

if TYPE_CHECKING:
    from tailmask.metrics.streaming import StreamingMetrics as StreamingMetrics

__all__ = [
    "Confusion",
    "Evaluation",
    "Report",
    "StreamingMetrics",
    "average_precision",
    "bootstrap_weights",
    "brier_score",
    "calibration_error",
    "class_confusion",
    "class_groups",
    "confusion",
    "evaluate",
    "exact_match",
    "mean_over_samples",
    "ndcg_at",
    "precision_at",
    "ranking_loss",
    "sample_f1",
]


def __getattr__(name: str) -> Any:
    if name == "StreamingMetrics":
        from tailmask.metrics.streaming import StreamingMetrics

        return StreamingMetrics
    raise AttributeError(f"module 'tailmask.metrics' has no attribute {name!r}")
