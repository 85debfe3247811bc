"""Decision trees as flat arrays: safe to store, and able to predict without the library that grew them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from tailmask._util.messages import UserError
from tailmask.learners.matrices import Array, Matrix, dense_chunks
from tailmask.learners.stored_models import take

__all__ = ["FlatTrees", "float32_below"]

_TYPES: dict[str, type[np.generic]] = {
    "size": np.int64,
    "roots": np.int32,
    "feature": np.int32,
    "threshold": np.float32,
    "children": np.int32,
    "missing_left": np.uint8,
    "category_set": np.int32,
    "set_starts": np.int32,
    "set_words": np.uint32,
}


@dataclass(frozen=True)
class FlatTrees:
    """Many binary trees. A reference ≥ 0 is a node, a negative one the leaf `~reference`.

    A numerical node sends a value to the left if it is ≤ the threshold, and NaN if `missing_left` is 1.
    A categorical node sends the categories of its set to the left, all other values and NaN to the right.
    Children come after their parent, so every descent ends.

    >>> node = {"feature": [0], "threshold": [0.5], "children": [[~0, ~1]], "missing_left": [1]}
    >>> stump = FlatTrees.of(features=1, leaves=2, roots=[0], **node)
    >>> rows = np.array([[0.2], [0.7], [np.nan]], dtype=np.float32)
    >>> [leaves.tolist() for _, leaves in stump.leaf_chunks(rows)]
    [[[0], [1], [0]]]
    """

    size: Array  # (2,) int64: number of features, number of leaves
    roots: Array  # (T,) int32: references
    feature: Array  # (M,) int32
    threshold: Array  # (M,) float32
    children: Array  # (M, 2) int32: references, left and right
    missing_left: Array  # (M,) uint8: 1 or 0
    category_set: Array  # (M,) int32: index of the node's set, −1 for a numerical node
    set_starts: Array  # (S + 1,) int32: where each set begins in set_words
    set_words: Array  # (W,) uint32: bit b of word w is category 32 w + b

    @classmethod
    def of(
        cls,
        *,
        features: int,
        leaves: int,
        roots: npt.ArrayLike,
        feature: npt.ArrayLike,
        threshold: npt.ArrayLike,
        children: npt.ArrayLike,
        missing_left: npt.ArrayLike,
        category_set: npt.ArrayLike | None = None,
        set_starts: npt.ArrayLike = (0,),
        set_words: npt.ArrayLike = (),
    ) -> FlatTrees:
        """Trees from plain numbers; without `category_set` all nodes are numerical."""
        nodes = len(np.asarray(feature))
        values = {
            "size": (features, leaves),
            "roots": roots,
            "feature": feature,
            "threshold": threshold,
            "children": np.asarray(children, dtype=np.int32).reshape(-1, 2),
            "missing_left": missing_left,
            "category_set": np.full(nodes, -1) if category_set is None else category_set,
            "set_starts": set_starts,
            "set_words": set_words,
        }
        return cls(**{name: np.asarray(values[name], dtype) for name, dtype in _TYPES.items()})

    @classmethod
    def join(cls, parts: Sequence[FlatTrees]) -> FlatTrees:
        """All trees of several parts together; their leaves are numbered in the same order."""
        nodes = np.cumsum([0] + [len(part.feature) for part in parts])
        leaves = np.cumsum([0] + [part.leaves for part in parts])
        sets = np.cumsum([0] + [len(part.set_starts) - 1 for part in parts])
        words = np.cumsum([0] + [len(part.set_words) for part in parts])

        def moved(references: Array, i: int) -> Array:
            there: Array = np.where(references >= 0, references + nodes[i], references - leaves[i])
            return there

        def joined(name: str) -> Array:
            array: Array = np.concatenate([getattr(part, name) for part in parts])
            return array

        moved_sets = [
            np.where(part.category_set < 0, -1, part.category_set + sets[i]) for i, part in enumerate(parts)
        ]
        return cls.of(
            features=parts[0].features,
            leaves=int(leaves[-1]),
            roots=np.concatenate([moved(part.roots, i) for i, part in enumerate(parts)]),
            feature=joined("feature"),
            threshold=joined("threshold"),
            children=np.concatenate([moved(part.children, i) for i, part in enumerate(parts)]),
            missing_left=joined("missing_left"),
            category_set=np.concatenate(moved_sets),
            set_starts=np.concatenate(
                [[0], *(part.set_starts[1:] + words[i] for i, part in enumerate(parts))]
            ),
            set_words=joined("set_words"),
        )

    @property
    def features(self) -> int:
        """The number of features of a row."""
        return int(self.size[0])

    @property
    def leaves(self) -> int:
        """The number of leaves of all trees together."""
        return int(self.size[1])

    def leaf_chunks(self, matrix: Matrix) -> Iterator[tuple[slice, npt.NDArray[np.int32]]]:
        """Chunks of rows, each with the leaf that every row reaches in every tree: (n, T)."""
        for rows, chunk in dense_chunks(matrix, len(self.roots)):
            yield rows, self._descend(chunk)

    def _descend(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
        """Move all pairs of tree and row down by one level at a time; returns (n, T)."""
        count, width = rows.shape
        values, children = rows.reshape(-1), self.children.reshape(-1)
        has_missing = bool(np.isnan(rows).any())
        reached = np.repeat(self.roots, count)  # (T · n,): the rows of a tree are neighbours
        pair = np.flatnonzero(reached >= 0)
        node, begin = reached[pair], (pair % max(count, 1)) * width
        while pair.size:
            value = values.take(begin + self.feature.take(node))
            left = value <= self.threshold.take(node)
            if has_missing:
                left |= np.isnan(value) & (self.missing_left.take(node) != 0)
            if len(self.set_words):
                self._decide_categories(left, node, value)
            node = children.take(2 * node.astype(np.int64) + ~left)
            inner = node >= 0
            reached[pair[~inner]] = node[~inner]
            pair, node, begin = pair[inner], node[inner], begin[inner]
        return np.ascontiguousarray(~reached.reshape(len(self.roots), count).T)

    def _decide_categories(self, left: Array, node: Array, value: Array) -> None:
        """Overwrite `left` for categorical nodes."""
        sets = self.category_set.take(node)
        at = np.flatnonzero(sets >= 0)
        sets, value = sets[at], value[at]
        start, stop = self.set_starts[sets], self.set_starts[sets + 1]
        valid = (value > -1) & (value < 32 * (stop - start).astype(np.float64))  # False for NaN
        category = np.where(valid, value, 0).astype(np.int64)
        word = self.set_words[np.where(valid, start + category // 32, 0)]
        left[at] = valid & ((word >> (category % 32).astype(np.uint32)) & 1 == 1)

    def arrays(self) -> dict[str, Array]:
        """The arrays to store; `from_arrays` takes them back."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> FlatTrees:
        """The trees from stored arrays; a UserError unless every descent ends at an existing leaf."""
        nodes = len(take(arrays, "feature", dtype=np.int32, shape=(None,)))
        shapes: dict[str, tuple[int | None, ...]] = dict.fromkeys(_TYPES, (None,))
        shapes |= dict.fromkeys(("threshold", "missing_left", "category_set"), (nodes,))
        shapes |= {"size": (2,), "children": (nodes, 2)}
        types = _TYPES.items()
        trees = cls(**{name: take(arrays, name, dtype=kind, shape=shapes[name]) for name, kind in types})
        trees._check()
        return trees

    def _check(self) -> None:
        nodes, words = len(self.feature), len(self.set_words)
        starts = self.set_starts
        references = np.concatenate([self.roots, self.children.reshape(-1)])
        inner = self.children >= 0
        problems = {
            "their sizes are negative or too large": not ((self.size >= 0) & (self.size < 2**31)).all(),
            "a reference leads out of the trees": not (
                (references < nodes) & (~references.astype(np.int64) < self.leaves)
            ).all(),
            "a child comes before its parent": ((self.children <= np.arange(nodes)[:, None]) & inner).any(),
            "a node splits on a feature that does not exist": not (
                (self.feature >= 0) & (self.feature < self.features)
            ).all(),
            "the sets of categories overlap or lead out of their words": not (
                len(starts) and starts[0] == 0 and starts[-1] == words and (np.diff(starts) > 0).all()
            ),
            "a node has a set of categories that does not exist": not (
                (self.category_set >= -1) & (self.category_set < len(starts) - 1)
            ).all(),
        }
        for problem, found in problems.items():
            if found:
                raise UserError(f"the stored trees are damaged, {problem}: fit the model again")


def float32_below(threshold: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """The largest float32 ≤ each threshold: it splits float32 values exactly as the float64 does.

    >>> bool(float32_below([0.1])[0] <= 0.1)
    True
    """
    exact = np.asarray(threshold, dtype=np.float64)
    largest = float(np.finfo(np.float32).max)
    below: npt.NDArray[np.float32] = exact.clip(-largest, largest).astype(np.float32)
    is_above = (below > exact) & (below > -largest)
    below[is_above] = np.nextafter(below[is_above], np.float32(-largest))
    return below
