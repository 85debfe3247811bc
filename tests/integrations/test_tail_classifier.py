"""TailClassifier: scikit-learn's checks, frames in and out, and the ensemble against `fit_rows`."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from tailmask.integrations.tail_classifier import TailClassifier

METHODS = ("linear:C=1", "trees:trees=5")


def quick(**options) -> TailClassifier:
    return TailClassifier(**{"methods": METHODS, "folds": 3, "random_state": 0} | options)


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 3))
    y = np.column_stack([x[:, 0] > 0, x[:, 1] > 1, x[:, 2] + x[:, 0] > 0.5]).astype(int)
    return x, y


def test_passes_scikit_learns_checks() -> None:
    results = check_estimator(quick(), on_skip=None)
    assert sum(result["status"] == "passed" for result in results) > 50


def test_finds_rare_labels(table) -> None:
    x, y = table
    model = quick().fit(x, y)
    assert (model.predict(x) == y).mean() > 0.9
    assert model.predict_proba(x).shape == y.shape
    assert set(model.leaderboard_) == set(METHODS)
    assert sum(model.weights_.values()) == pytest.approx(1)


def test_unknown_labels_are_left_out(table) -> None:
    x, y = table
    unknown = y.astype(float)
    unknown[::3, 0] = np.nan
    marked = np.where(np.isnan(unknown), -1, unknown)
    np.testing.assert_array_equal(
        quick().fit(x, unknown).predict_proba(x), quick().fit(x, marked).predict_proba(x)
    )


def test_dense_and_sparse_rows_give_the_same(table) -> None:
    x, y = np.where(table[0] > 0, table[0], 0), table[1]
    model = quick(methods=("trees:trees=5",)).fit(x, y)
    np.testing.assert_allclose(model.predict_proba(sparse.csr_array(x)), model.predict_proba(x), atol=1e-6)


@pytest.mark.parametrize("library", [pd, pl])
def test_frames_in_frames_out(table, library) -> None:
    x, y = table
    colours = np.array(["red", "blue"])[(x[:, 0] > 0).astype(int)].tolist()
    features = library.DataFrame({"size": x[:, 1], "colour": colours, "gap": [None, 1.0] * 45})
    labels = library.DataFrame({"big": y[:, 0], "rare": y[:, 1]})
    model = quick().fit(features, labels)
    predicted = model.predict(features)
    assert isinstance(predicted, library.DataFrame)
    assert list(predicted.columns) == ["big", "rare"]
    assert list(model.predict_proba(features).columns) == ["big", "rare"]
    assert (np.asarray(predicted["big"]) == y[:, 0]).mean() > 0.9
    with pytest.raises(ValueError, match="colour"):
        model.predict(features[["size"]])


@pytest.mark.parametrize("form", ["array", "frame"])
def test_copies_of_a_row_are_in_one_fold(form) -> None:
    """The labels are noise, so only copies of held-out rows can tell them."""
    rng = np.random.default_rng(0)
    x, y = np.tile(rng.normal(size=(100, 4)), (3, 1)), np.tile(rng.random((100, 2)) < 0.3, (3, 1)).astype(int)
    columns = {f"x{number}": x[:, number] for number in range(4)} | {"id": range(300)}
    rows = x if form == "array" else pl.DataFrame(columns)
    scores = quick(methods=("trees:trees=20",)).fit(rows, y).leaderboard_["trees:trees=20"]
    assert scores["map"] < 0.5


def test_works_in_pipelines_and_grid_searches(table) -> None:
    x, y = table
    search = GridSearchCV(
        make_pipeline(StandardScaler(), quick()),
        {"tailclassifier__methods": [("linear:C=1",), ("trees:trees=5",)]},
        scoring="f1_macro",
        cv=2,
    ).fit(x, y)
    assert search.best_score_ > 0.5


def test_a_fitted_estimator_can_be_copied(table) -> None:
    x, y = table
    model = quick(methods=("bce",), epochs=1).fit(x, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(x), model.predict_proba(x))


def test_two_classes_are_decided_at_half_unless_tuned(table) -> None:
    x, y = table
    at_half = quick().fit(x, y[:, 1])
    assert at_half.thresholds_.tolist() == [0.5]
    tuned = quick(thresholds="tuned").fit(x, y[:, 1])
    assert tuned.thresholds_.tolist() != [0.5]
    with pytest.raises(ValueError, match="thresholds"):
        quick(thresholds=2.0).fit(x, y)
