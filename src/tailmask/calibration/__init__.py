"""From outputs to decisions: the data's own prior put back, and thresholds fitted on validation data.

Masking changes what a network's outputs mean: it has learned from labels in the ratio r̄ and not in the data's
ratio r. `apply_prior_shift` undoes that. `DecisionRule` says what decisions are for, such as F1 or a
precision of 0.9, and fits a threshold for each class; `fit_thresholds` is the rule for F1.
`cross_fitted_labels` and `expected_scores` say how good the decisions will be on new data. `Calibration`
keeps a prior shift and thresholds beside a model's weights.
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
