"""Trees as flat arrays: forged arrays neither loop nor read out of range."""

from __future__ import annotations

import numpy as np
import pytest

from tailmask._util.messages import UserError
from tailmask.learners.matrix.flat_trees import FlatTrees, float32_below

ROWS = np.array([[0.2, 3.0], [0.7, 40.0], [np.nan, np.nan]], dtype=np.float32)


def two_trees():
    """A tree of a numerical and a categorical node (categories 3 and 35 go left), and a tree of one leaf."""
    return FlatTrees.of(
        features=2,
        leaves=4,
        roots=[0, ~3],
        feature=[0, 1],
        threshold=[0.5, 0],
        children=[[1, ~0], [~1, ~2]],
        missing_left=[1, 0],
        category_set=[-1, 0],
        set_starts=[0, 2],
        set_words=[1 << 3, 1 << 3],
    )


def leaves(trees, rows=ROWS):
    return np.concatenate([chunk for _, chunk in trees.leaf_chunks(rows)]).tolist()


def test_every_kind_of_node():
    assert leaves(two_trees()) == [[1, 3], [0, 3], [2, 3]]


@pytest.mark.parametrize(
    ("category", "is_left"),
    [(3, True), (3.9, True), (35, True), (4, False), (67, False), (-0.5, False), (-3, False), (1e30, False)],
)
def test_categories(category, is_left):
    row = np.array([[0.0, category]], dtype=np.float32)
    assert leaves(two_trees(), row)[0][0] == (1 if is_left else 2)


def test_joined_trees_reach_the_same_leaves_in_order():
    joined = FlatTrees.join([two_trees(), two_trees()])
    assert leaves(joined) == [row + [leaf + 4 for leaf in row] for row in leaves(two_trees())]
    assert leaves(FlatTrees.from_arrays(joined.arrays())) == leaves(joined)


def test_no_rows():
    assert list(two_trees().leaf_chunks(ROWS[:0])) == []


def test_thresholds_split_float32_as_float64_does():
    exact = np.random.default_rng(0).normal(size=1000)
    near = exact.astype(np.float32)
    for values in (near, np.nextafter(near, np.float32(9)), np.nextafter(near, np.float32(-9))):
        np.testing.assert_array_equal(values <= float32_below(exact), values.astype(np.float64) <= exact)
    assert np.isfinite(float32_below([1e300, -1e300])).all()


FORGERIES = {
    "loop": ("children", [[0, ~0], [~1, ~2]]),
    "no such node": ("children", [[2, ~0], [~1, ~2]]),
    "no such leaf": ("children", [[1, ~4], [~1, ~2]]),
    "smallest integer": ("children", [[1, -(2**31)], [~1, ~2]]),
    "no such root": ("roots", [2, ~3]),
    "no such feature": ("feature", [0, 2]),
    "negative feature": ("feature", [-1, 1]),
    "threshold": ("threshold", [np.nan, 0]),
    "no such set": ("category_set", [-1, 1]),
    "negative set": ("category_set", [-2, 0]),
    "set beyond its words": ("set_starts", [0, 3]),
    "set before its words": ("set_starts", [-1, 2]),
    "no starts": ("set_starts", []),
    "too many leaves": ("size", [2, 2**40]),
    "negative size": ("size", [-1, 4]),
    "shape": ("children", [[1, ~0, 0], [~1, ~2, 0]]),
    "length": ("missing_left", [1]),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_arrays_are_refused(name):
    key, forged = FORGERIES[name]
    arrays = two_trees().arrays()
    arrays[key] = np.array(forged, dtype=arrays[key].dtype)
    with pytest.raises(UserError, match="fit"):
        FlatTrees.from_arrays(arrays)


def test_other_dtypes_and_missing_arrays_are_refused():
    arrays = two_trees().arrays()
    with pytest.raises(UserError, match="int64"):
        FlatTrees.from_arrays(arrays | {"roots": arrays["roots"].astype(np.int64)})
    del arrays["roots"]
    with pytest.raises(UserError, match="roots"):
        FlatTrees.from_arrays(arrays)
