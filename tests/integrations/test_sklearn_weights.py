"""Sample weights of the scikit-learn estimator: in the loss, the class ratios and what is held out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_estimator import make_data, quick

from tailmask.integrations.tabular.estimator_training import TrainingRows


def test_light_rows_of_a_rare_class_stay_among_those_held_out():
    X, Y = make_data(400)
    Y = np.stack([Y[:, 0], np.arange(400) % 50 == 0], axis=1).astype(int)
    weights = np.where(Y[:, 1] == 1, 1.0, 5.0)
    held = TrainingRows(X, torch.from_numpy(Y), None).weighted(weights).split(0.3, torch.Generator())[1]
    assert held.targets[:, 1].sum() == held.repeated().targets[:, 1].sum() == 2


def test_weights_of_zero_leave_samples_out():
    X, Y = make_data()
    weights = np.ones(300)
    weights[::3] = 0
    kept = weights > 0
    weighted = quick().fit(X, Y, sample_weight=5 * weights)
    without = quick().fit(X[kept], Y[kept])
    np.testing.assert_allclose(weighted.predict_proba(X), without.predict_proba(X), rtol=1e-5)
    np.testing.assert_allclose(weighted.criterion_.class_ratio, without.criterion_.class_ratio)
    with pytest.raises(ValueError, match=r"only zeros|at least one non-zero"):
        quick().fit(X, Y, sample_weight=np.zeros(300))


def test_weights_count_in_the_class_ratios_and_the_loss():
    X, Y = make_data()
    weights = np.where(Y[:, 0] == 1, 3.0, 1.0)
    model = quick(max_epochs=30, rate=0).fit(X, Y, sample_weight=weights)
    expected = (weights @ Y) / (weights @ (1 - Y))
    np.testing.assert_allclose(model.criterion_.class_ratio, expected, rtol=1e-4)
    plain = quick(max_epochs=30, rate=0).fit(X, Y)
    assert model.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.02


@pytest.mark.filterwarnings("error")
def test_a_class_of_very_light_rows_is_there_all_the_same():
    X, Y = make_data()
    weights = np.where(Y[:, 0] == 1, 1e-7, 1.0)
    model = quick(rate=0).fit(X, Y, sample_weight=weights)
    expected = (weights @ Y) / (weights @ (1 - Y))
    np.testing.assert_allclose(model.criterion_.class_ratio, expected, rtol=1e-4)
    weights = np.where(Y[:, 0] == 1, 1e-20, 1.0)
    assert (quick(rate=0).fit(X, Y, sample_weight=weights).criterion_.class_counts > 0).all()


@pytest.mark.parametrize(
    "options", [{"adapt": "prevalence", "rate": 0.1, "max_epochs": 40}, {"thresholds": "tuned", "rate": 0}]
)
def test_weights_count_in_what_is_held_out(options):
    """As rows that are there several times; else what steers and decides would work against them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 4))
    Y = (X[:, :2] + rng.normal(scale=1.5, size=(600, 2)) > 1.2).astype(int)  # hard to tell apart
    times = np.where(Y[:, 0] == 1, 4, 1)
    model = quick(**options, validation_fraction=0.3, hidden_layer_sizes=(), learning_rate=0.03)
    plain = model.fit(X, Y).predict(X)[:, 0].mean()
    weighted = model.fit(X, Y, sample_weight=times).predict(X)[:, 0].mean()
    repeated = model.fit(X.repeat(times, axis=0), Y.repeat(times, axis=0)).predict(X)[:, 0].mean()
    assert weighted > plain + 0.1
    assert weighted == pytest.approx(repeated, abs=0.1)
