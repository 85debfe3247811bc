"""Folds: every row once, labels spread, groups whole, time forward."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailmask._util.messages import UserError
from tailmask.data.rows import Rows
from tailmask.learners.folds import Folds, make_folds


@st.composite
def labels(draw):
    shape = (draw(st.integers(6, 60)), draw(st.integers(1, 6)))
    generator = np.random.default_rng(draw(st.integers(0, 10**6)))
    return generator.choice([-1, 0, 1], p=[0.1, 0.6, 0.3], size=shape).astype(np.int8)


def rows_with(targets, **others):
    return Rows(np.zeros((len(targets), 1)), targets, **others)


@settings(max_examples=40, deadline=None)
@given(labels(), st.integers(2, 6), st.integers(0, 2**63 - 1))
def test_every_row_is_held_out_once_and_never_trained_on_in_its_fold(targets, count, seed):
    folds = make_folds(rows_with(targets), count, seed=seed)
    held_out = [folds.held_out(fold) for fold in range(count)]
    assert sorted(np.concatenate(held_out)) == list(range(len(targets)))
    for fold, rows in enumerate(held_out):
        assert len(rows) > 0
        assert sorted([*rows, *folds.train(fold)]) == list(range(len(targets)))
    assert (make_folds(rows_with(targets), count, seed=seed).number == folds.number).all()
    assert folds.rare_classes(targets) == tuple(
        c for c in range(targets.shape[1]) if (targets[:, c] == 1).sum() < count
    )


@settings(max_examples=40, deadline=None)
@given(labels(), st.integers(2, 4), st.integers(0, 1000))
def test_groups_stay_together(targets, count, seed):
    groups = np.random.default_rng(seed).integers(0, len(targets) // 2 + count, len(targets))
    groups[:count] = np.arange(count)  # at least as many groups as folds
    folds = make_folds(rows_with(targets, groups=groups), count, seed=seed)
    for group in np.unique(groups):
        assert len(np.unique(folds.number[groups == group])) == 1
    assert len(np.unique(folds.number)) == count


@settings(max_examples=40, deadline=None)
@given(labels(), st.integers(2, 4), st.integers(0, 1000))
def test_time_goes_forward_and_groups_do_not_cross(targets, count, seed):
    generator = np.random.default_rng(seed)
    times = generator.permutation(
        np.r_[np.arange(count + 1), generator.integers(0, 30, len(targets) - count - 1)]
    )
    groups = generator.integers(0, 1000, len(targets))
    folds = make_folds(rows_with(targets, times=times, groups=groups), count, seed=seed)
    for fold in range(count):
        train, held_out = folds.train(fold), folds.held_out(fold)
        assert min(len(train), len(held_out)) > 0
        assert times[train].max() < times[held_out].min()
        assert not set(groups[train]) & set(groups[held_out])
    assert len(folds.covered) + (folds.number == -1).sum() == len(targets)


def test_labels_are_spread_over_the_folds():
    generator = np.random.default_rng(0)
    targets = (generator.random((500, 8)) < [0.5, 0.3, 0.2, 0.1, 0.05, 0.04, 0.03, 0.02]).astype(np.int8)
    for groups in (None, np.arange(500) // 2):
        folds = make_folds(rows_with(targets, groups=groups), 5, seed=3)
        counts = np.array([targets[folds.held_out(fold)].sum(0) for fold in range(5)])
        expected = targets.sum(0) / 5
        assert (np.abs(counts - expected) <= 2 + 0.25 * expected).all()
        sizes = np.bincount(folds.number)
        assert sizes.max() - sizes.min() <= 20


def test_seeds_differ():
    targets = np.random.default_rng(0).integers(0, 2, (50, 2)).astype(np.int8)
    assert (
        make_folds(rows_with(targets), 5, seed=0).number != make_folds(rows_with(targets), 5, seed=1).number
    ).any()


@pytest.mark.parametrize(
    "others",
    [{}, {"groups": np.zeros(4)}, {"times": np.array([0, 0, 1, 1])}, {"times": np.array([0, 1, 2, np.nan])}],
)
def test_too_few_rows_groups_or_times_are_refused(others):
    with pytest.raises(UserError):
        make_folds(rows_with(np.ones((4, 1), dtype=np.int8), **others), 5, seed=0)


def test_one_group_over_all_times_leaves_nothing_to_train_on():
    rows = rows_with(np.ones((8, 1), dtype=np.int8), times=np.arange(8), groups=np.zeros(8))
    with pytest.raises(UserError):
        make_folds(rows, 3, seed=0)


def test_the_poorest_fold_is_counted_for_each_class():
    folds = Folds(np.array([0, 0, 1, 1, 1, -1]), 2)
    targets = np.array([[1, 1], [0, 1], [1, 0], [1, -1], [-1, 0], [1, 1]], dtype=np.int8)
    assert folds.fewest_positives(targets).tolist() == [1, 0]
