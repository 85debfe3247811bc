"""Logistic regression against scikit-learn, with unknown labels, weights and deadlines."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from tailmask._util.messages import UserError
from tailmask.learners.matrix.linear import LinearModel, fit_linear
from tailmask.learners.protocol import Deadline


def oracle(matrix, labels, strength=1.0, weights=None):
    model = LogisticRegression(C=strength, tol=1e-10, max_iter=5000)
    return model.fit(matrix.astype(np.float64), labels, weights).decision_function(matrix)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_logits_are_scikit_learns(problem, form, power):
    matrix, targets = problem
    model = fit_linear(form(matrix), targets, C=0.5, pos_power=power, seed=0)
    for label, labels in enumerate(targets.T):
        weights = np.where(labels == 1, ((labels == 0).sum() / labels.sum()) ** power, 1.0)
        expected = oracle(matrix, labels, 0.5, weights)
        np.testing.assert_allclose(model.logits(form(matrix))[:, label].numpy(), expected, atol=0.02)


def test_unknown_labels_are_left_out(partly_known):
    matrix, targets = partly_known
    logits = fit_linear(matrix, targets, C=1.0, seed=0).logits(matrix).numpy()
    for label in range(4):
        known = targets[:, label] >= 0
        model = LogisticRegression().fit(matrix[known], targets[known, label])
        np.testing.assert_allclose(logits[:, label], model.decision_function(matrix), atol=0.02)


def test_labels_of_one_value_get_the_logit_of_their_prevalence(partly_known):
    matrix, targets = partly_known
    start = LinearModel(np.ones((6, 6), np.float32), np.ones(6, np.float32), 1.0)
    for model in (fit_linear(matrix, targets, seed=0), fit_linear(matrix, targets, seed=0, start=start)):
        logits = model.logits(matrix).numpy()
        np.testing.assert_allclose(logits[:, 4], np.log(0.5 / 160.5), rtol=1e-6)
        assert (logits[:, 5] == 0).all()


def test_weights_of_single_labels(problem):
    """Whole weights act as repeated rows, and weight 0 as an unknown label."""
    matrix, targets = problem
    weights = np.random.default_rng(0).integers(0, 3, targets.shape)
    logits = fit_linear(matrix, targets, C=1.0, seed=0, label_weights=weights).logits(matrix).numpy()
    for label, labels in enumerate(targets.T):
        rows = np.repeat(np.arange(len(matrix)), weights[:, label])
        model = LogisticRegression(tol=1e-8).fit(matrix[rows].astype(np.float64), labels[rows])
        np.testing.assert_allclose(logits[:, label], model.decision_function(matrix), atol=0.02)


def test_start_is_where_the_optimisation_begins(problem):
    matrix, targets = problem
    first = fit_linear(matrix, targets, seed=0, C=3.0)
    again = fit_linear(matrix, targets, seed=0, start=first)
    assert again.C == 3.0
    np.testing.assert_allclose(again.logits(matrix), first.logits(matrix), atol=0.02)
    late = fit_linear(matrix, targets, seed=0, start=first, deadline=Deadline.after(0))
    assert (late.logits(matrix) == first.logits(matrix)).all()


def test_noise_is_fitted_with_a_smaller_c_than_a_clear_rule():
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(200, 20)).astype(np.float32)
    noise = generator.integers(0, 2, (200, 3)).astype(np.int8)
    rule = (matrix[:, :3] > 0).astype(np.int8)
    assert fit_linear(matrix, noise, seed=0).C <= 0.01
    assert fit_linear(matrix, rule, seed=0).C >= 10


def test_c_is_one_where_positives_are_too_few(problem):
    matrix, targets = problem
    rare = targets.copy()
    rare[20:] = 0
    rare[:20] = np.arange(20)[:, None] < 5
    assert fit_linear(matrix, rare, seed=0).C == 1.0


def test_deadline_in_the_past_leaves_prevalences(problem):
    matrix, targets = problem
    model = fit_linear(matrix, targets, seed=0, deadline=Deadline.after(0))
    assert model.C == 1.0
    positives = targets.sum(0)
    expected = np.log((positives + 0.5) / (len(targets) - positives + 0.5))
    np.testing.assert_allclose(model.logits(matrix)[0].numpy(), expected, rtol=1e-5)


def test_same_model_from_any_number_of_threads_and_from_its_arrays(partly_known):
    matrix, targets = partly_known
    first, second = (fit_linear(matrix, targets, seed=1, threads=threads) for threads in (1, 3))
    assert first.C == second.C
    assert (first.logits(matrix) == second.logits(matrix)).all()
    loaded = LinearModel.from_arrays(first.arrays())
    assert loaded.C == first.C
    assert (loaded.logits(matrix) == first.logits(matrix)).all()


@pytest.mark.parametrize(
    ("name", "forged"),
    [
        ("weights", np.zeros((6, 3), np.float32)),
        ("weights", np.zeros((6, 4))),
        ("weights", np.full((6, 4), np.nan, np.float32)),
        ("bias", np.full(4, np.inf, np.float32)),
        ("bias", np.array(["a"] * 4)),
        ("C", np.array(0.0)),
        ("C", np.array([1.0])),
    ],
)
def test_forged_arrays_are_refused(name, forged):
    arrays = LinearModel(np.zeros((6, 4), np.float32), np.zeros(4, np.float32), 1.0).arrays()
    with pytest.raises(UserError, match="fit"):
        LinearModel.from_arrays(arrays | {name: forged})


def test_mistakes_are_refused_in_a_sentence(problem):
    matrix, targets = problem
    with pytest.raises(ValueError, match="C must be above 0"):
        fit_linear(matrix, targets, C=0.0, seed=0)
    with pytest.raises(ValueError, match="label weights"):
        fit_linear(matrix, targets, seed=0, label_weights=-np.ones(targets.shape))
    with pytest.raises(ValueError, match="start from"):
        fit_linear(matrix, targets, seed=0, start=LinearModel(np.zeros((2, 4)), np.zeros(4), 1.0))
    with pytest.raises(ValueError, match="finite"):
        fit_linear(matrix * np.float32(np.nan), targets, seed=0)


def test_rare_labels_are_fitted_to_the_end():
    """With one tolerance for all labels, a label of one row in 500 would stay at its prevalence."""
    rng = np.random.default_rng(0)
    matrix = scipy.sparse.random_array((20_000, 40), density=0.05, dtype=np.float32, rng=rng).tocsr()
    matrix.data[:] = 1
    shows = matrix[:, [0]].toarray().ravel() > 0
    targets = (shows & (rng.random(len(shows)) < 0.04))[:, None].astype(np.int8)
    assert 20 < targets.sum() < 60
    found = fit_linear(matrix, targets, C=1.0, seed=0).logits(matrix).numpy().ravel()
    expected = oracle(matrix, targets.ravel())
    assert np.ptp(expected) > 3
    np.testing.assert_allclose(found, expected, atol=0.05)
