"""Platt scaling against scikit-learn; selection that is never worse than the best arm; outer scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from tailmask.data.rows import Rows
from tailmask.learners.cross_fitting import CrossFitted, crossfit
from tailmask.learners.ensemble import fit_combination, fit_ensemble, score
from tailmask.learners.folds import make_folds
from tailmask.learners.matrix.forest import ForestLearner
from tailmask.learners.matrix.linear import LinearLearner
from tailmask.learners.platt_scaling import crossfit_platt, fit_platt
from tailmask.learners.stored_models import load_fitted

SIZE = (300, 4)


@pytest.fixture
def truth():
    """Targets of four classes, the last one rare, some unknown, and folds."""
    generator = np.random.default_rng(0)
    hidden = generator.normal(size=SIZE)
    targets = (hidden + generator.normal(size=SIZE) > [0, 1, 2, 3]).astype(np.int8)
    targets[generator.random(SIZE) < 0.05] = -1
    return hidden, targets, make_folds(Rows(np.zeros((len(targets), 1)), targets), 5, seed=0)


@pytest.fixture
def arms(truth):
    """A good arm on a strange scale, one that adds something, and one that is noise."""
    hidden, _, folds = truth
    generator = np.random.default_rng(1)
    outputs = [
        20 * hidden + 8 * generator.normal(size=SIZE) + 30,
        hidden + 0.5 * generator.normal(size=SIZE),
        generator.normal(size=SIZE),
    ]
    return [CrossFitted(torch.from_numpy(each).float(), folds, None) for each in outputs]


def test_without_shrinkage_platt_is_logistic_regression(truth, arms):
    _, targets, _ = truth
    scaling = fit_platt(arms[0].logits, targets, shrinkage=0.0)
    for label in range(4):
        known = targets[:, label] >= 0
        model = LogisticRegression(C=1e8, tol=1e-10, max_iter=10_000)
        model.fit(arms[0].logits[known, label].numpy()[:, None].astype(float), targets[known, label])
        assert scaling.slopes[label] == pytest.approx(model.coef_[0, 0], rel=1e-3)
        assert scaling.offsets[label] == pytest.approx(model.intercept_[0], rel=1e-3, abs=1e-2)


def test_infinite_shrinkage_shares_one_slope_and_offset(truth, arms):
    _, targets, _ = truth
    scaling = fit_platt(arms[1].logits, targets, shrinkage=np.inf)
    known = targets >= 0
    z, y = arms[1].logits.double().numpy()[known], targets[known]

    def loss(w):
        output = w[0] * z + w[1]
        return np.logaddexp(0, np.where(y == 1, -output, output)).sum() + 0.5 * ((w[0] - 1) ** 2 + w[1] ** 2)

    expected = minimize(loss, [1.0, 0.0]).x
    np.testing.assert_allclose(scaling.slopes, expected[0], rtol=1e-3)
    np.testing.assert_allclose(scaling.offsets, expected[1], rtol=1e-3)


def test_rarer_classes_are_nearer_to_the_shared_scaling(truth, arms):
    _, targets, _ = truth
    own, shrunk, shared = (fit_platt(arms[0].logits, targets, shrinkage=s) for s in (0.0, 5.0, np.inf))
    moved = np.abs(shrunk.offsets - own.offsets) / np.abs(shared.offsets - own.offsets)
    assert moved[3] > moved[0]
    assert (moved[:3] < 0.5).all()
    rare = fit_platt(arms[0].logits, targets, shrinkage=5.0, rare=[1])
    assert (rare.slopes[1], rare.offsets[1]) == (shared.slopes[1], shared.offsets[1])
    assert rare.slopes[0] == shrunk.slopes[0]


def test_classes_without_positives_and_perfect_classes_have_finite_scalings():
    logits = torch.linspace(-1, 1, 50)[:, None].repeat(1, 4)
    targets = np.zeros((50, 4), dtype=np.int8)
    targets[25:, 0] = targets[:25, 1] = 1  # perfect; perfectly wrong
    targets[:, 3] = -1
    scaling = fit_platt(logits, targets)
    assert np.isfinite(scaling.offsets).all()
    assert (scaling.slopes > 0).all()  # the order of rows is never turned round


def test_scaling_of_a_fold_does_not_use_its_targets(truth, arms):
    _, targets, folds = truth
    rows = folds.held_out(2)
    turned = targets.copy()
    turned[rows] = np.where(turned[rows] >= 0, 1 - turned[rows], -1)
    first, second = (crossfit_platt(arms[0].logits, y, folds.number) for y in (targets, turned))
    assert torch.equal(first[rows], second[rows])
    assert not torch.equal(first, second)


@pytest.mark.parametrize("seed", range(3))
def test_never_worse_than_the_best_arm_by_its_own_score(truth, arms, seed):
    _, targets, folds = truth
    outputs = [arm.logits for arm in arms]
    combination = fit_combination(outputs, targets, folds.number, rare=(), seed=seed)
    assert combination.weights.sum() == pytest.approx(1)
    assert (combination.weights >= 0).all()
    scaled = [crossfit_platt(each, targets, folds.number) for each in outputs]
    labels = torch.from_numpy(targets)
    together = sum(weight * each for weight, each in zip(combination.weights, scaled, strict=True))
    best = max(score(each, labels) for each in scaled)
    assert score(together, labels) >= best
    assert combination.weights[2] < 0.1  # noise


def test_two_arms_that_complement_each_other_beat_both_out_of_fold(truth, arms):
    _, targets, folds = truth
    fit = fit_ensemble([arm.logits for arm in arms], targets, folds, seed=0)
    labels = torch.from_numpy(targets)
    alone = [score(crossfit_platt(arm.logits, targets, folds.number), labels) for arm in arms]
    assert score(fit.logits.double(), labels) > max(alone)
    assert fit.logits.isfinite().all()


def test_the_targets_of_a_fold_steer_nothing_of_its_outer_logits(truth, arms):
    _, targets, folds = truth
    rows = folds.held_out(0)
    turned = targets.copy()
    turned[rows] = np.where(turned[rows] >= 0, 1 - turned[rows], -1)
    outputs = [arm.logits for arm in arms]
    first, second = (fit_ensemble(outputs, labels, folds, seed=0) for labels in (targets, turned))
    assert torch.equal(first.logits[rows], second.logits[rows])
    assert not torch.equal(first.logits, second.logits)


def test_one_seed_gives_one_ensemble(truth, arms):
    _, targets, folds = truth
    outputs = [arm.logits for arm in arms]
    first, second = (fit_ensemble(outputs, targets, folds, seed=5) for _ in range(2))
    assert (first.combination.weights == second.combination.weights).all()
    assert torch.equal(first.logits, second.logits)


def test_an_ensemble_of_real_arms_predicts_and_is_stored(problem, tmp_path):
    rows = Rows(*problem)
    folds = make_folds(rows, 3, seed=0)
    arms = [
        crossfit(learner, rows, folds, seed=0, workdir=tmp_path / str(learner))
        for learner in (LinearLearner(C=1.0), ForestLearner(trees=10))
    ]
    fit = fit_ensemble([arm.logits for arm in arms], rows.labelled, folds, seed=0)
    scalings = [fit_platt(arm.logits, rows.labelled) for arm in arms]

    def mean(outputs):
        weights = fit.combination.weights
        return sum(w * s.apply(each) for w, s, each in zip(weights, scalings, outputs, strict=True))

    once_more = fit_platt(mean([arm.logits for arm in arms]), rows.labelled)
    expected = once_more.apply(mean([arm.fitted.logits(rows) for arm in arms]))
    fitted = fit.ensemble(lambda arm: arms[arm].fitted)
    torch.testing.assert_close(fitted.logits(rows), expected.float(), rtol=1e-4, atol=1e-4)
    fitted.save(tmp_path / "ensemble")
    assert torch.equal(load_fitted(tmp_path / "ensemble").logits(rows), fitted.logits(rows))


def test_rows_that_no_fold_covers_stay_without_logits(truth, arms):
    _, targets, _ = truth
    rows = Rows(np.zeros((len(targets), 1)), targets, times=np.arange(len(targets)))
    folds = make_folds(rows, 4, seed=0)
    timed = []
    for arm in arms:
        logits = arm.logits.clone()
        logits[folds.number < 0] = torch.nan
        timed.append(logits)
    fit = fit_ensemble(timed, targets, folds, seed=0)
    assert (fit.logits.isnan().all(1).numpy() == (folds.number < 0)).all()
