"""Decisions from outputs: prior shifts, and thresholds that are fitted on validation data.

A network that was trained with masked labels has learned the ratio r̄ of positives to negatives, not the
data's ratio r. `apply_prior_shift` corrects its logits. `DecisionRule` is the goal of the decisions, such as
F1 or a precision of 0.9, and fits a threshold for each class; `fit_thresholds` is the rule for F1.
`cross_fitted_labels` and `expected_scores` estimate how good the decisions will be on new data. `Calibration`
is a prior shift and thresholds, stored beside a model's weights.
"""

from __future__ import annotations

from tailmask.calibration.cross_fitted_thresholds import ExpectedScores, cross_fitted_labels, expected_scores
from tailmask.calibration.decision_rules import DecisionRule
from tailmask.calibration.prior_shift import apply_prior_shift
from tailmask.calibration.shift_and_thresholds import Calibration
from tailmask.calibration.thresholds import fit_shared_threshold, fit_thresholds

__all__ = [
    "Calibration",
    "DecisionRule",
    "ExpectedScores",
    "apply_prior_shift",
    "cross_fitted_labels",
    "expected_scores",
    "fit_shared_threshold",
    "fit_thresholds",
]
