"""Flat trees from the text of a LightGBM model that was trained in this process."""

from __future__ import annotations

import numpy as np

from tailmask.learners.matrices import Array
from tailmask.learners.matrix.flat_trees import FlatTrees, float32_below

__all__ = ["read_trees"]

# Bits of LightGBM's decision_type; the two bits above them are the kind of missing value.
_CATEGORICAL, _DEFAULT_LEFT, _KIND_SHIFT, _KIND_NAN = 1, 2, 2, 2


def read_trees(text: str, *, features: int) -> tuple[FlatTrees, Array]:
    """All trees of a model's text, and the values that their leaves add to the raw score.

    >>> trees, values = read_trees("Tree=0\\nnum_leaves=1\\nleaf_value=-1.5\\n", features=3)
    >>> trees.leaves, values.tolist()
    (1, [-1.5])
    """
    trees = [_read_tree(block, features=features) for block in text.split("Tree=")[1:]]
    return FlatTrees.join([tree for tree, _ in trees]), np.concatenate([values for _, values in trees])


def _read_tree(block: str, *, features: int) -> tuple[FlatTrees, Array]:
    lines = dict(line.split("=", 1) for line in block.split("end of trees")[0].splitlines() if "=" in line)

    def numbers(key: str, dtype: type) -> Array:
        return np.array(lines.get(key, "").split(), dtype=dtype)

    values = numbers("leaf_value", np.float64)
    feature, threshold = numbers("split_feature", np.int64), numbers("threshold", np.float64)
    decision = numbers("decision_type", np.int64)
    is_categorical = (decision & _CATEGORICAL) != 0
    # LightGBM reads NaN as 0 at nodes whose feature had no missing values in training.
    has_missing = decision >> _KIND_SHIFT == _KIND_NAN
    missing_left = np.where(has_missing, decision & _DEFAULT_LEFT != 0, threshold >= 0) & ~is_categorical
    tree = FlatTrees.of(
        features=features,
        leaves=len(values),
        roots=[0 if len(feature) else -1],
        feature=feature,
        threshold=np.where(is_categorical, np.float32(0), float32_below(threshold)),
        children=np.stack([numbers("left_child", np.int64), numbers("right_child", np.int64)], axis=1),
        missing_left=missing_left,
        category_set=np.where(is_categorical, threshold, -1),
        set_starts=numbers("cat_boundaries", np.int64) if is_categorical.any() else (0,),
        set_words=numbers("cat_threshold", np.int64) if is_categorical.any() else (),
    )
    return tree, values
