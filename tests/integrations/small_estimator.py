"""A small problem and an estimator that is quick on it."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_multilabel_classification

from tailmask.integrations.sklearn import PLMClassifier


def make_data(num_samples: int = 300) -> tuple[np.ndarray, np.ndarray]:
    X, Y = make_multilabel_classification(num_samples, 12, n_classes=4, n_labels=1, random_state=0)
    return (X - X.mean(axis=0)) / X.std(axis=0), Y


def quick(**options) -> PLMClassifier:
    return PLMClassifier(**{"max_epochs": 5, "learning_rate": 0.01, "random_state": 0, "rate": 0.2} | options)
