"""PLM around any estimator: the gate of `check_estimator`, and scikit-learn's own estimators as oracles."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator
from small_estimator import make_data

from tailmask.integrations.sklearn import PLMMultiOutputClassifier


def wrap(estimator=None, **options):
    estimator = LogisticRegression() if estimator is None else estimator
    return PLMMultiOutputClassifier(estimator, **{"random_state": 0} | options)


def rare_data(number=400):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(number, 5))
    return X, (X[:, :3] + generator.normal(size=(number, 3)) > [0, 1.5, 2.2]).astype(int)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_passes_scikit_learns_checks():
    results = check_estimator(wrap(updates=2, random_state=None), on_skip=None)
    assert sum(result["status"] == "passed" for result in results) > 50


def test_rare_labels_are_predicted_about_as_often_as_they_are_present():
    X, Y = rare_data()
    plain, masked = (wrap(rate=rate).fit(X, Y).predict(X) for rate in (0, None))
    assert (plain[:, 1:].sum(0) < 0.8 * Y[:, 1:].sum(0)).all()
    assert (np.abs(masked.sum(0) / Y.sum(0) - 1) < 0.35).all()
    assert f1_score(Y, masked, average="macro") > f1_score(Y, plain, average="macro") + 0.05


def test_without_masking_it_is_one_estimator_per_label():
    X, Y = make_data()
    Y[:5, 0] = -1
    model = wrap(rate=0).fit(X, Y)
    for label in range(4):
        known = Y[:, label] >= 0
        oracle = LogisticRegression().fit(X[known], Y[known, label])
        np.testing.assert_array_equal(model.decision_function(X)[:, label], oracle.decision_function(X))


def test_clones_are_fitted_at_the_reported_ratios():
    X, Y = rare_data()
    model = wrap().fit(X, Y)
    for label, shift in enumerate(model.prior_shift_):
        keep = np.exp(-np.abs(shift))
        rarer = 0 if shift < 0 else 1  # the side that is masked
        weights = np.where(Y[:, label] == rarer, keep, 1.0)
        kept = weights[Y[:, label] == 1].sum() / weights[Y[:, label] == 0].sum()
        np.testing.assert_allclose(kept, model.target_ratio_[label], rtol=1e-5)
        oracle = LogisticRegression().fit(X, Y[:, label], sample_weight=weights)
        np.testing.assert_allclose(model.predict_proba(X)[:, label], oracle.predict_proba(X)[:, 1], atol=1e-4)


@pytest.mark.parametrize("unknown", [-1, np.nan])
def test_unknown_labels_and_labels_of_one_value(unknown):
    X, Y = rare_data()
    Y = np.hstack([Y, np.zeros((len(Y), 1))]).astype(float)
    Y[::7, 0] = unknown
    Y[::2, 3] = unknown
    model = wrap().fit(X, Y)
    assert model.estimators_[3] is None
    assert (model.predict(X)[:, 3] == 0).all()
    assert model.predict_proba(X).shape == (400, 4)
    without = wrap(rate=0).fit(X, Y)
    kept = ~(np.isnan(Y[:, 0]) | (Y[:, 0] == -1))
    oracle = LogisticRegression().fit(X[kept], Y[kept, 0])
    np.testing.assert_array_equal(without.decision_function(X)[:, 0], oracle.decision_function(X))


def test_two_classes_in_one_column():
    X, Y = rare_data()
    names = np.where(Y[:, 2], "yes", "no")
    model = wrap().fit(X, names)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.decision_function(X).shape == (400,)
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    assert (model.predict(X) == "yes").sum() > (wrap(rate=0).fit(X, names).predict(X) == "yes").sum()


@pytest.mark.parametrize("estimator", [LinearSVC(), RandomForestClassifier(5, random_state=0)], ids=str)
def test_estimators_with_one_kind_of_output(estimator):
    X, Y = rare_data()
    model = wrap(estimator, updates=2).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert hasattr(model, "predict_proba") == hasattr(estimator, "predict_proba")


def test_same_seed_same_model_and_sparse_rows():
    X, Y = rare_data()
    first, again = (wrap().fit(X, Y).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    thin = sparse.coo_array(X)
    np.testing.assert_allclose(wrap().fit(thin, Y).predict_proba(thin), first, atol=1e-3)


def test_frames_keep_their_names():
    X, Y = rare_data()
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = wrap(updates=1).fit(frame, Y)
    assert model.feature_names_in_.tolist() == list("abcde")
    assert model.estimators_[0].feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("edcba")])


def test_in_a_search_over_a_pipeline():
    X, Y = rare_data()
    pipeline = make_pipeline(StandardScaler(), wrap(updates=2))
    grid = {"plmmultioutputclassifier__rate": [0, None], "plmmultioutputclassifier__estimator__C": [0.1, 1]}
    search = GridSearchCV(pipeline, grid, scoring="f1_macro", cv=2).fit(X, Y)
    assert search.best_params_["plmmultioutputclassifier__rate"] is None
    assert clone(search.best_estimator_).fit(X, Y).predict(X).shape == Y.shape


@pytest.mark.parametrize(
    ("estimator", "y", "match"),
    [
        (KNeighborsClassifier(), [0, 1] * 20, "sample_weight"),
        (LogisticRegression(), [0, 1, 2, 3] * 10, "binary"),
        (LogisticRegression(), [1] * 40, "one class"),
        (LogisticRegression(), [[2, 0]] * 40, "several columns"),
        (LogisticRegression(), None, "y"),
    ],
    ids=str,
)
def test_refuses_in_a_sentence(estimator, y, match):
    with pytest.raises(ValueError, match=match):
        wrap(estimator).fit(np.random.default_rng(0).normal(size=(40, 2)), y)
