"""Train the best model in a given time: arms, out-of-fold scores, the ensemble.

An arm is a method that a fit trains. Studies of several seeds with intervals live in `studies`.
"""

from __future__ import annotations

from tailmask.fitting.ablation import Step
from tailmask.fitting.best_model import FitResult, fit, load_model
from tailmask.fitting.importance import FeatureImportance, Importance
from tailmask.fitting.leaderboard import ArmScores

__all__ = ["ArmScores", "FeatureImportance", "FitResult", "Importance", "Step", "fit", "load_model"]
