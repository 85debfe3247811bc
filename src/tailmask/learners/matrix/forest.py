"""Extremely randomised trees: all labels in one forest, kept as flat arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tailmask._util.cores import in_threads
from tailmask._util.messages import UserError, require
from tailmask._util.registry import Option, word
from tailmask.learners.matrices import Array, Matrix, as_targets, check_matrix, is_sparse, prior_logits
from tailmask.learners.matrix.flat_trees import FlatTrees, float32_below
from tailmask.learners.matrix.matrix_learner import MatrixLearner, Model
from tailmask.learners.protocol import NEVER, Deadline
from tailmask.learners.stored_models import prefixed, take, without_prefix

__all__ = ["Forest", "ForestLearner", "fit_forest"]

# Trees are grown on at most this many outputs.
_MOST_OUTPUTS = 32


@dataclass(frozen=True)
class Forest:
    """Trees whose leaves vote with the share of positives per label; see `fit_forest`."""

    trees: FlatTrees
    shares: Any  # scipy CSR (leaves, C) float32: the share of positives among the leaf's known labels
    prior: Array  # (C,) float64: logit of the prevalence

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of features and classes."""
        return self.trees.features, len(self.prior)

    def votes(self, matrix: Matrix) -> npt.NDArray[np.float64]:
        """The mean share of positives in the leaves that a row reaches: (N, C)."""
        matrix = check_matrix(matrix, missing=True, features=self.trees.features)
        csr_array, count = type(self.shares), len(self.trees.roots)
        votes = np.zeros((matrix.shape[0], self.shares.shape[1]))
        for rows, leaves in self.trees.leaf_chunks(matrix):
            ends = np.arange(len(leaves) + 1, dtype=np.int32) * count
            reached = csr_array(
                (np.ones(leaves.size), leaves.reshape(-1), ends), (len(leaves), self.trees.leaves)
            )
            votes[rows] = (reached @ self.shares).toarray() / count
        return votes

    def logits(self, matrix: Matrix) -> Tensor:
        """The logits of the votes: (N, C) float32.

        One more tree votes with the prevalence of each class. So no logit is infinite, and the order of the
        rows within a class stays.
        """
        count = len(self.trees.roots)
        votes = self.votes(matrix) * count
        for_label = votes + 1 / (1 + np.exp(-self.prior))
        against = (count - votes).clip(min=0) + 1 / (1 + np.exp(self.prior))
        return torch.from_numpy((np.log(for_label) - np.log(against)).astype(np.float32))

    def arrays(self) -> dict[str, Array]:
        """The arrays to store; `from_arrays` takes them back."""
        return {
            **prefixed("trees", self.trees.arrays()),
            "shares.data": self.shares.data,
            "shares.indices": self.shares.indices,
            "shares.indptr": self.shares.indptr,
            "prior": self.prior,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Forest:
        """The forest from stored arrays; damaged ones are refused."""
        trees = FlatTrees.from_arrays(without_prefix("trees", arrays))
        prior = take(arrays, "prior", dtype=np.float64, shape=(None,))
        data = take(arrays, "shares.data", dtype=np.float32, shape=(None,))
        indices = take(arrays, "shares.indices", dtype=np.int32, shape=(len(data),))
        indptr = take(arrays, "shares.indptr", dtype=np.int32, shape=(trees.leaves + 1,))
        is_sound = (
            len(trees.roots) > 0
            and indptr[0] == 0
            and indptr[-1] == len(data)
            and (np.diff(indptr) >= 0).all()
            and ((indices >= 0) & (indices < len(prior))).all()
            and ((data >= 0) & (data <= 1)).all()
        )
        if not is_sound:
            raise UserError("the stored leaves of the forest are damaged: fit the model again")
        csr_array = require("scipy.sparse", extra="cli").csr_array
        return cls(trees, csr_array((data, indices, indptr), (trees.leaves, len(prior))), prior)


def fit_forest(
    matrix: Matrix,
    targets: Array,
    *,
    seed: int,
    trees: int = 300,
    min_samples_leaf: int = 1,
    deadline: Deadline = NEVER,
    threads: int | None = None,
) -> Forest:
    """Grow extremely randomised trees on all labels at once.

    The labels' variances decide the splits, each divided by the label's standard deviation, so rare labels
    count for more. More than 32 labels are added up with random signs to 32 outputs, differently for each
    tree. The expected sum of variances is the same, and growing is up to ten times as fast.

    The structure is grown with unknown labels as negatives. The shares in the leaves count only known labels.
    A leaf without a known label of a class votes with the prevalence.

    After `deadline` no further tree is started, but one is always grown. The number of threads does not
    change the result.

    >>> x = np.arange(20, dtype=np.float32)[:, None]
    >>> forest = fit_forest(x, (x > 9).astype(np.int8), seed=0, trees=5)
    >>> (forest.logits(x)[:, 0] > 0).tolist() == (x[:, 0] > 9).tolist()
    True
    """
    matrix = check_matrix(matrix, missing=True)
    targets = as_targets(targets, matrix.shape[0])
    if trees < 1:
        raise ValueError(f"a forest needs at least one tree, got {trees}")
    sparse, tree_module = require("scipy.sparse", extra="cli"), require("sklearn.tree", extra="cli")
    columns = sparse.csc_array(matrix) if is_sparse(matrix) else matrix
    labels = _Labels.of(targets)

    def grow(job: tuple[int, int]) -> tuple[FlatTrees, Any] | None:
        index, tree_seed = job
        if index and deadline.passed:
            return None
        tree = tree_module.ExtraTreeRegressor(
            max_features="sqrt", min_samples_leaf=min_samples_leaf, random_state=tree_seed
        )
        grown = tree.fit(columns, labels.outputs(tree_seed)).tree_
        flat, leaf_of_node = _flatten(grown, features=matrix.shape[1])
        return flat, labels.shares(leaf_of_node[grown.apply(matrix)], flat.leaves)

    seeds = (np.random.SeedSequence(seed).generate_state(trees) >> 1).tolist()
    grown = [tree for tree in in_threads(grow, enumerate(seeds), threads) if tree is not None]
    shares = sparse.vstack([part for _, part in grown], format="csr")
    return Forest(
        FlatTrees.join([flat for flat, _ in grown]), check_matrix(shares, missing=False), labels.prior
    )


@word(
    "trees",
    kind="learner",
    implies="bce",
    summary="extremely randomised trees, one forest for all labels",
    not_with={"plm": "a tree splits by all labels at once, so single labels cannot be masked"},
)
@dataclass(frozen=True)
class ForestLearner(MatrixLearner):
    """Extremely randomised trees (Geurts et al. 2006) on raw features, one forest for all labels.

    Strong on small tables of numbers. Trees grow with unknown labels as negatives; the shares in their leaves
    count known labels only.

    >>> from tailmask.data.rows import Rows
    >>> rows = Rows(np.arange(20.0)[:, None], np.arange(20)[:, None] > 9)
    >>> (ForestLearner(trees=5).fit(rows, seed=0).logits(rows)[:, 0] > 0).sum()
    tensor(10)

    Args:
        trees: Number of trees.
        min_samples_leaf: The least number of rows in a leaf.

    Paper:
        Geurts, Ernst, Wehenkel, [Extremely randomized trees](https://doi.org/10.1007/s10994-006-6226-1),
        Machine Learning 63, 2006
    """

    model = Forest

    trees: Annotated[int, Option(minimum=1)] = 300
    min_samples_leaf: Annotated[int, Option(minimum=1)] = 1

    def fit_model(self, inputs: dict[str, Any], *, categorical: Sequence[int]) -> tuple[Model, Array | None]:
        return fit_forest(**inputs, trees=self.trees, min_samples_leaf=self.min_samples_leaf), None


def _flatten(tree: Any, *, features: int) -> tuple[FlatTrees, npt.NDArray[np.int32]]:
    """One of scikit-learn's trees as flat arrays, and the leaf number of each node (−1 if it is no leaf)."""
    is_leaf = tree.children_left < 0
    inner = np.flatnonzero(~is_leaf)
    leaf_of_node = np.where(is_leaf, np.cumsum(is_leaf) - 1, -1).astype(np.int32)
    reference = np.where(is_leaf, ~leaf_of_node, np.cumsum(~is_leaf) - 1)
    children = np.stack([tree.children_left[inner], tree.children_right[inner]], axis=1)
    flat = FlatTrees.of(
        features=features,
        leaves=int(is_leaf.sum()),
        roots=reference[:1],
        feature=tree.feature[inner],
        threshold=float32_below(tree.threshold[inner]),
        children=reference[children],
        missing_left=tree.missing_go_to_left[inner],
    )
    return flat, leaf_of_node


@dataclass(frozen=True)
class _Labels:
    """The training labels, in the forms that trees are grown on and leaves are counted from."""

    positives: Any  # scipy CSR (N, C)
    unknown: Any  # scipy CSR (N, C); None if all labels are known
    scale: Array  # (C,): the factor of each label when trees are grown
    prior: Array  # (C,): logit of the prevalence

    @classmethod
    def of(cls, targets: Array) -> _Labels:
        csr_array = require("scipy.sparse", extra="cli").csr_array
        deviation = (targets == 1).std(0)
        return cls(
            positives=csr_array(targets == 1, dtype=np.float64),
            unknown=csr_array(targets < 0, dtype=np.float64) if (targets < 0).any() else None,
            scale=1 / np.sqrt(np.where(deviation > 0, deviation, 1)),
            prior=prior_logits(targets),
        )

    def outputs(self, tree_seed: int) -> npt.NDArray[np.float64]:
        """The outputs for one tree: the scaled labels; many labels are summed with random signs."""
        count = self.positives.shape[1]
        generator = np.random.default_rng(tree_seed)
        if count <= _MOST_OUTPUTS:
            weights, column = self.scale, np.arange(count)
        else:
            weights = self.scale * generator.choice([-1.0, 1.0], count)
            column = generator.permutation(count) % _MOST_OUTPUTS
        sums = type(self.positives)(
            (weights, column, np.arange(count + 1)), (count, min(count, _MOST_OUTPUTS))
        )
        outputs: npt.NDArray[np.float64] = (self.positives @ sums).toarray()
        return outputs

    def shares(self, leaf: Array, leaves: int) -> Any:
        """The share of positives among the known labels of each leaf: CSR (leaves, C) float32."""
        csr_array, rows = type(self.positives), len(leaf)
        members = csr_array((np.ones(rows), (leaf, np.arange(rows))), (leaves, rows))
        known = np.bincount(leaf, minlength=leaves).astype(np.float64)
        positives = (members @ self.positives).tocsr()
        row = np.repeat(np.arange(leaves), np.diff(positives.indptr))
        if self.unknown is None:
            positives.data /= known[row]
            return positives.astype(np.float32)
        unknown = (members @ self.unknown).tocsr()
        positives.data /= known[row] - np.asarray(unknown[row, positives.indices]).reshape(-1)
        row = np.repeat(np.arange(leaves), np.diff(unknown.indptr))
        is_empty = unknown.data == known[row]
        row, label = row[is_empty], unknown.indices[is_empty]
        prevalence = 1 / (1 + np.exp(-self.prior[label]))
        return (positives + csr_array((prevalence, (row, label)), positives.shape)).tocsr().astype(np.float32)
