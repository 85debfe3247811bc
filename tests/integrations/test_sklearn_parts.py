"""The scikit-learn estimator over several calls: partial_fit goes on where it was."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from small_estimator import make_data, quick


def test_partial_fit_is_fit_epoch_by_epoch():
    X, Y = make_data()
    whole = quick(max_epochs=3).fit(X, Y)
    parts = quick()
    for _ in range(3):
        parts.partial_fit(X, Y)
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), rtol=1e-4)
    np.testing.assert_allclose(parts.criterion_.class_ratio, whole.criterion_.class_ratio)
    assert parts.n_iter_ == 3


def test_class_ratios_of_partial_fit_are_those_of_all_calls():
    X, Y = make_data()
    weights = np.where(Y[:200, 0] == 1, 3.0, 1.0)
    model = quick().partial_fit(X[:200], Y[:200], sample_weight=weights).partial_fit(X[200:], Y[200:])
    all_weights = np.concatenate([weights, np.ones(100)])
    expected = (all_weights @ Y) / (all_weights @ (1 - Y))
    np.testing.assert_allclose(model.criterion_.class_ratio, expected, rtol=1e-4)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weight", [0.3, 1e-4, 1e-12])
def test_light_rows_count_in_full_over_the_calls_of_partial_fit(weight):
    X = np.random.default_rng(0).normal(size=(100, 5))
    Y = (np.arange(100)[:, None] % 10 < [5, 1, 2]).astype(int)
    model = quick(rate=0.0)
    for part in np.array_split(np.arange(100), 10):
        model.partial_fit(X[part], Y[part], sample_weight=np.full(10, weight))
    np.testing.assert_allclose(model.criterion_.class_ratio, [1, 1 / 9, 1 / 4], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*classes have no", "ignore:.*compares classes")
def test_weights_compare_over_the_calls_of_partial_fit():
    X, Y = make_data(50)
    heavy, even = (quick(rate=0.0) for _ in range(2))
    for row in range(50):
        part = slice(row, row + 1)
        heavy.partial_fit(X[part], Y[part], sample_weight=[100.0 if Y[row, 0] else 0.01])
        even.partial_fit(X[part], Y[part])
    assert heavy.criterion_.class_ratio[0] > 1000 * even.criterion_.class_ratio[0]
    assert heavy.decision_function(X)[:, 0].mean() > even.decision_function(X)[:, 0].mean()


@pytest.mark.filterwarnings("ignore:.*classes have no")
@pytest.mark.parametrize("initial", ["mean", "max", [0.5, 0.5, 0.5, 0.5]])
def test_partial_fit_holds_the_ratio_that_was_asked_for(initial):
    X, Y = make_data()
    model = quick(rate=0.0, initial_ratio=initial)
    for part in (slice(0, 20), slice(20, 120), slice(120, 300)):
        model.partial_fit(X[part], Y[part])
    ratio = model.criterion_.class_ratio
    expected = torch.tensor(initial) if isinstance(initial, list) else getattr(ratio, initial)().expand(4)
    torch.testing.assert_close(model.criterion_.target_ratio, expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_partial_fit_after_fit_counts_its_rows_as_often_as_those(weighted):
    X, Y = make_data()
    weights = np.ones(290) if weighted else None
    model = quick(rate=0.0).fit(X[:290], Y[:290], weights)
    fitted = model.criterion_.class_counts.clone()
    for number in (1, 2):
        model.partial_fit(X[290:], Y[290:])
        expected = (Y[:290].sum(axis=0) + number * Y[290:].sum(axis=0)) / (
            (1 - Y[:290]).sum(axis=0) + number * (1 - Y[290:]).sum(axis=0)
        )
        np.testing.assert_allclose(model.criterion_.class_ratio, expected, rtol=1e-5)
        np.testing.assert_allclose(model.criterion_.target_ratio, expected, rtol=1e-5)
    added = np.stack([(1 - Y[290:]).sum(axis=0), Y[290:].sum(axis=0)])
    np.testing.assert_array_equal(model.criterion_.class_counts, fitted.numpy() + 2 * added)


def test_partial_fit_goes_on_after_pickling():
    X, Y = make_data()
    model = quick().partial_fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        copy.partial_fit(X, Y).predict_proba(X), model.partial_fit(X, Y).predict_proba(X)
    )


def test_partial_fit_learns_classes_that_come_later():
    X, _ = make_data()
    y = np.digitize(X[:, 0], [-0.5, 0.8])
    early = y < 2
    model = quick(rate=0.0)
    with pytest.warns(UserWarning, match="1 of 3 classes have no positives"):
        model.partial_fit(X[early], y[early], classes=[0, 1, 2])
    for _ in range(40):
        model.partial_fit(X, y)
    assert model.criterion_.keep.min() > 0.999  # nothing of the late class is masked
    assert model.score(X, y) > 0.9
    with pytest.raises(ValueError, match="must have the classes 0, 1, 2, got 7"):
        model.partial_fit(X[:2], [0, 7])
    with pytest.raises(ValueError, match=r"one column .* in all calls of partial_fit"):
        model.partial_fit(X[:2], [[0, 1, 1], [0, 0, 1]])


def test_partial_fit_starts_anew_after_it_has_diverged():
    X, Y = make_data(60)
    model = quick().partial_fit(X, Y)
    model._training.lr = 1e38
    with pytest.raises(ValueError, match="weights became NaN or infinite: lower "):
        model.partial_fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert np.isfinite(model.partial_fit(X, Y).predict_proba(X)).all()


def test_a_chunk_without_a_known_label_moves_nothing():
    X, Y = make_data(100)
    model = quick().partial_fit(X, Y)
    before = model.criterion_.target_ratio.clone()
    model.partial_fit(X, np.full_like(Y, -1))
    assert torch.equal(model.criterion_.target_ratio, before)


def test_ratios_stay_in_their_range_as_data_come_in():
    X, Y = make_data()
    model = quick(rate=0.0, ratio_range=(0.5, 2.0))
    for part in np.array_split(np.arange(len(X)), 4):
        model.partial_fit(X[part], Y[part])
        trained_at = torch.from_numpy(model.ratio_curve_[-1])
        assert bool(((trained_at >= 0.5) & (trained_at <= 2.0)).all())
        assert bool((model.criterion_.keep < 1).any())
