"""Boosters against LightGBM's own raw scores."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
import scipy.sparse

from tailmask._util.messages import UserError
from tailmask.learners.matrix.boosters import Boosters, fit_boosters
from tailmask.learners.protocol import Deadline

PARAMETERS = {
    "objective": "binary",
    "learning_rate": 0.1,
    "num_leaves": 15,
    "min_child_samples": 5,
    "verbose": -1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "feature_pre_filter": False,
    "feature_fraction": 0.5,
    "seed": 0,
}


def mixed(rows=500):
    """Numbers without and with missing values, zeros, and two columns of categories."""
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(rows, 6)).astype(np.float32)
    matrix[:, 1] = matrix[:, 1].round()
    matrix[:, 4], matrix[:, 5] = generator.integers(0, 70, rows), generator.integers(0, 4, rows)
    score = matrix[:, 0] + 2 * (matrix[:, 4] % 3 == 1) + (matrix[:, 5] == 2) - matrix[:, 1] / 2
    targets = (score[:, None] + generator.normal(size=(rows, 3)) > [0.5, 1, 3]).astype(np.int8)
    holes = generator.random(matrix.shape) < 0.15
    holes[:, 0] = False
    return np.where(holes, np.nan, matrix).astype(np.float32), targets


def unseen(rows=400):
    """Rows with categories, missing values and zeros that training has not seen."""
    generator = np.random.default_rng(1)
    matrix = 3 * generator.normal(size=(rows, 6)).astype(np.float32)
    matrix[:, 4], matrix[:, 5] = generator.integers(-3, 130, rows), generator.integers(-1, 9, rows)
    matrix[generator.random(matrix.shape) < 0.2] = np.nan
    matrix[generator.random(matrix.shape) < 0.1] = 0
    return matrix


def raw_scores(matrix, labels, rows, **changes):
    data = lightgbm.Dataset(matrix, labels, categorical_feature=[4, 5], params=PARAMETERS)
    return lightgbm.train(PARAMETERS | changes, data, 60).predict(rows, raw_score=True)


def test_logits_are_lightgbms_raw_scores():
    matrix, targets = mixed()
    boosters = fit_boosters(matrix, targets, seed=0, categorical=[4, 5], rounds=60)
    assert (boosters.trees.category_set >= 0).any()
    assert boosters.rounds.tolist() == [60, 60, 60]
    expected = np.stack([raw_scores(matrix, labels, unseen()) for labels in targets.T], axis=1)
    np.testing.assert_allclose(boosters.logits(unseen()).numpy(), expected, atol=1e-6)


def test_positives_weigh_more_with_a_power():
    matrix, targets = mixed()
    weight = ((targets[:, 2] == 0).sum() / (targets[:, 2] == 1).sum()) ** 0.5
    boosters = fit_boosters(matrix, targets[:, 2:], seed=0, categorical=[4, 5], pos_power=0.5, rounds=60)
    expected = raw_scores(matrix, targets[:, 2], unseen(), scale_pos_weight=weight)
    np.testing.assert_allclose(boosters.logits(unseen())[:, 0].numpy(), expected, atol=1e-6)


def test_sparse_rows():
    matrix, targets = mixed()
    sparse = scipy.sparse.csr_array(np.where(matrix[:, :4] > 0.5, matrix[:, :4], 0), dtype=np.float32)
    boosters = fit_boosters(sparse, targets[:, :1], seed=0, rounds=30)
    known = scipy.sparse.csr_matrix(sparse)  # the form that LightGBM takes without a warning
    data = lightgbm.Dataset(known, targets[:, 0], params=PARAMETERS)
    expected = lightgbm.train(PARAMETERS, data, 30).predict(known, raw_score=True)
    np.testing.assert_allclose(boosters.logits(sparse)[:, 0].numpy(), expected, atol=1e-6)
    assert (boosters.logits(sparse) == boosters.logits(sparse.toarray())).all()


def test_unknown_labels_are_left_out(partly_known):
    """All rows decide the bins, known rows alone the trees."""
    matrix, targets = partly_known
    boosters = fit_boosters(matrix, targets, seed=0, rounds=20)
    base = lightgbm.Dataset(matrix, np.zeros(len(matrix)), params=PARAMETERS).construct()
    for label in range(4):
        known = np.flatnonzero(targets[:, label] >= 0)
        data = base.subset(known).construct()
        data.set_label(targets[known, label])
        expected = lightgbm.train(PARAMETERS, data, 20).predict(matrix, raw_score=True)
        np.testing.assert_allclose(boosters.logits(matrix)[:, label].numpy(), expected, atol=1e-6)


def test_labels_of_one_value_get_the_logit_of_their_prevalence(partly_known):
    matrix, targets = partly_known
    boosters = fit_boosters(matrix, targets, seed=0, rounds=3)
    assert boosters.rounds.tolist() == [3, 3, 3, 3, 0, 0]
    np.testing.assert_allclose(boosters.logits(matrix)[:, 4].numpy(), np.log(0.5 / 160.5), rtol=1e-6)
    assert (boosters.logits(matrix)[:, 5] == 0).all()
    alone = fit_boosters(matrix, targets[:, 4:], seed=0)
    assert (alone.logits(matrix) == boosters.logits(matrix)[:, 4:]).all()


def test_too_few_rows_for_a_split_give_a_constant():
    matrix = np.arange(4, dtype=np.float32)[:, None]
    boosters = fit_boosters(matrix, np.array([[1], [0], [0], [0]]), seed=0)
    np.testing.assert_allclose(boosters.logits(matrix).numpy(), np.log(1 / 3), rtol=1e-6)


def test_same_boosters_from_any_number_of_threads_and_from_their_arrays():
    matrix, targets = mixed()
    fits = [
        fit_boosters(matrix, targets, seed=1, categorical=[4, 5], rounds=10, threads=threads)
        for threads in (1, 3)
    ]
    for name, array in fits[0].arrays().items():
        np.testing.assert_array_equal(array, fits[1].arrays()[name])
    loaded = Boosters.from_arrays(fits[0].arrays())
    assert (loaded.logits(unseen()) == fits[0].logits(unseen())).all()


def test_deadline_leaves_each_label_with_a_tree(problem):
    matrix, targets = problem
    boosters = fit_boosters(matrix, targets, seed=0, rounds=10_000, deadline=Deadline.after(0.2))
    assert (boosters.rounds >= 1).all()
    assert (boosters.rounds < 10_000).all()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("starts", lambda array: array[::-1].copy()),
        ("starts", lambda array: array + 1),
        ("leaf_values", lambda array: array[1:]),
        ("leaf_values", lambda array: array * np.inf),
        ("bias", lambda array: array[:1]),
        ("trees.children", lambda array: np.zeros_like(array)),
    ],
)
def test_forged_arrays_are_refused(problem, name, change):
    arrays = fit_boosters(*problem, seed=0, rounds=2).arrays()
    with pytest.raises(UserError, match="fit"):
        Boosters.from_arrays(arrays | {name: change(arrays[name])})


def test_categorical_columns_must_exist(problem):
    with pytest.raises(ValueError, match="from 0 to 5"):
        fit_boosters(*problem, seed=0, categorical=[6])
