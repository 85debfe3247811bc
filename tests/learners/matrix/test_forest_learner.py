"""The forest against scikit-learn's trees, with known and unknown labels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import average_precision_score
from sklearn.tree import ExtraTreeClassifier

from tailmask._util.messages import UserError
from tailmask.learners.matrix import forest as module
from tailmask.learners.matrix.forest import Forest, fit_forest
from tailmask.learners.protocol import Deadline


def with_holes(matrix, share=0.1):
    return np.where(np.random.default_rng(2).random(matrix.shape) < share, np.nan, matrix).astype(np.float32)


@pytest.mark.parametrize("form", ["dense", "missing", "sparse"])
def test_flat_form_of_scikit_learns_forest_gives_its_probabilities(problem, form):
    """A forest that scikit-learn grew, flattened and counted by us."""
    matrix, targets = problem
    if form == "missing":
        matrix = with_holes(matrix)
    if form == "sparse":
        matrix = scipy.sparse.csr_array(np.where(np.abs(matrix) < 0.7, 0, matrix), dtype=np.float32)
    oracle = ExtraTreesClassifier(20, random_state=0, min_samples_leaf=3).fit(matrix, targets)
    labels = module._Labels.of(targets)
    flat = [module._flatten(tree.tree_, features=6) for tree in oracle.estimators_]
    shares = [
        labels.shares(nodes[tree.tree_.apply(matrix)], trees.leaves)
        for tree, (trees, nodes) in zip(oracle.estimators_, flat, strict=True)
    ]
    ours = Forest(
        module.FlatTrees.join([trees for trees, _ in flat]),
        scipy.sparse.vstack(shares, format="csr"),
        labels.prior,
    )
    rows = matrix if form == "sparse" else with_holes(matrix, 0.3)
    rows = rows if form != "dense" else np.nan_to_num(rows)
    expected = np.stack([part[:, 1] for part in oracle.predict_proba(rows)], axis=1)
    np.testing.assert_allclose(ours.votes(rows), expected, atol=1e-6)


def test_one_label_grows_the_tree_that_gini_grows():
    """With one label, variance and Gini impurity order all splits alike."""
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(80, 3)).astype(np.float32)
    targets = (matrix[:, :1] > generator.normal(size=(80, 1))).astype(np.int8)
    ours = fit_forest(matrix, targets, seed=0, trees=1, min_samples_leaf=5)
    tree_seed = int(np.random.SeedSequence(0).generate_state(1)[0] >> 1)
    oracle = ExtraTreeClassifier(random_state=tree_seed, min_samples_leaf=5).fit(matrix, targets[:, 0])
    np.testing.assert_allclose(ours.votes(matrix)[:, 0], oracle.predict_proba(matrix)[:, 1], atol=1e-6)


def test_leaves_count_known_labels_alone(partly_known):
    matrix, targets = partly_known
    forest = fit_forest(matrix, targets, seed=0, trees=4, min_samples_leaf=5)
    prevalence = ((targets == 1).sum(0) + 0.5) / ((targets >= 0).sum(0) + 1)
    leaves = np.concatenate([chunk for _, chunk in forest.trees.leaf_chunks(matrix)])
    expected = np.zeros(targets.shape)
    for tree in range(4):
        for row in range(len(matrix)):
            there = targets[leaves[:, tree] == leaves[row, tree]]
            known = (there >= 0).sum(0)
            share = (there == 1).sum(0) / np.maximum(known, 1)
            expected[row] += np.where(known > 0, share, prevalence) / 4
    np.testing.assert_allclose(forest.votes(matrix), expected, atol=1e-6)


def test_logits_are_finite_and_keep_the_order(partly_known):
    matrix, targets = partly_known
    forest = fit_forest(matrix, targets, seed=0, trees=10)
    votes, logits = forest.votes(matrix), forest.logits(matrix).numpy()
    assert np.isfinite(logits).all()
    assert logits.dtype == np.float32
    for label in range(targets.shape[1]):
        order = np.argsort(votes[:, label])
        assert (np.diff(logits[order, label]) >= 0).all()
    assert (logits[:, 4] < -2).all()  # never positive
    np.testing.assert_allclose(logits[:, 5], 0, atol=1e-6)  # never known


def test_many_labels_are_learned_from_sums_of_them():
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(200, 8)).astype(np.float32)
    targets = (matrix @ generator.normal(size=(8, 50)) > 2.5).astype(np.int8)
    forest = fit_forest(matrix[:120], targets[:120], seed=0, trees=60)
    logits, held_out = forest.logits(matrix[120:]).numpy(), targets[120:]
    shown = np.flatnonzero(held_out.any(0))
    found = np.mean([average_precision_score(held_out[:, c], logits[:, c]) for c in shown])
    assert found > held_out[:, shown].mean() + 0.3


def test_same_forest_from_any_number_of_threads_and_from_its_arrays(partly_known):
    matrix, targets = partly_known
    first = fit_forest(matrix, targets, seed=3, trees=6, threads=1).arrays()
    second = fit_forest(matrix, targets, seed=3, trees=6, threads=3)
    assert first.keys() == second.arrays().keys()
    for name, array in second.arrays().items():
        np.testing.assert_array_equal(array, first[name])
    assert (Forest.from_arrays(first).logits(matrix) == second.logits(matrix)).all()
    other = fit_forest(matrix, targets, seed=4, trees=6)
    assert (other.logits(matrix) != second.logits(matrix)).any()


def test_sparse_rows_give_the_logits_of_dense_ones(problem):
    matrix, targets = problem
    dense = np.where(matrix > 0.5, matrix, 0).astype(np.float32)
    sparse = scipy.sparse.csr_array(dense)
    sparse.indices, sparse.indptr = sparse.indices.astype(np.int64), sparse.indptr.astype(np.int64)
    forest = fit_forest(sparse, targets, seed=0, trees=5)
    assert (forest.logits(sparse) == forest.logits(dense)).all()


def test_deadline_leaves_whole_trees(problem):
    forest = fit_forest(*problem, seed=0, trees=50, deadline=Deadline.after(0))
    assert 1 <= len(forest.trees.roots) < 50
    assert np.isfinite(forest.logits(problem[0]).numpy()).all()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("shares.indices", lambda array: array + 4),
        ("shares.indptr", lambda array: array[::-1].copy()),
        ("shares.data", lambda array: array * 3),
        ("shares.data", lambda array: array * np.float32(np.nan)),
        ("prior", lambda array: array.astype(np.float32)),
        ("trees.feature", lambda array: array + 6),
    ],
)
def test_forged_arrays_are_refused(problem, name, change):
    arrays = fit_forest(*problem, seed=0, trees=2).arrays()
    with pytest.raises(UserError, match="fit"):
        Forest.from_arrays(arrays | {name: change(arrays[name])})


def test_mistakes_are_refused_in_a_sentence(problem):
    matrix, targets = problem
    with pytest.raises(ValueError, match="at least one tree"):
        fit_forest(matrix, targets, seed=0, trees=0)
    with pytest.raises(ValueError, match="6 features"):
        fit_forest(matrix, targets, seed=0, trees=1).logits(matrix[:, :5])
    with pytest.raises(ValueError, match="1, 0 or −1"):
        fit_forest(matrix, targets * 2, seed=0)
    with pytest.raises(ValueError, match="shape"):
        fit_forest(matrix, targets[1:], seed=0)
    with pytest.raises(ValueError, match="finite"):
        fit_forest(matrix * np.float32(np.inf), targets, seed=0)
