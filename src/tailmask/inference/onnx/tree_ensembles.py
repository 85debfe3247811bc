"""Forests and boosters as `TreeEnsembleRegressor`, which finds the same leaves as `FlatTrees`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tailmask.inference.onnx.graph import Graph
from tailmask.learners.matrices import Array
from tailmask.learners.matrix.boosters import Boosters
from tailmask.learners.matrix.flat_trees import FlatTrees
from tailmask.learners.matrix.forest import Forest

__all__ = ["boosters_logits", "forest_logits", "tree_bytes"]

# The bytes of a node, and of a value that a leaf adds to an output, in an ONNX file.
_NODE, _VALUE = 30, 17


class _Values(NamedTuple):
    """The values that leaves add to outputs."""

    leaf: Array
    output: Array
    value: Array  # float64


def forest_logits(graph: Graph, forest: Forest, matrix: str) -> str:
    """The logits (batch, C) of a forest; see `Forest.logits`.

    The operator returns float32. So labels that most rows have are counted by the votes against them: the
    smaller number of votes is the more precise one.
    """
    flipped = forest.prior > 0
    sums = _ensemble(graph, forest.trees, _votes(forest, flipped), matrix, outputs=len(flipped))
    votes = graph.cast(sums, np.float64)
    others = graph.op("Max", graph.op("Sub", np.array(float(len(forest.trees.roots))), votes), np.zeros(1))
    prior = np.where(flipped, -forest.prior, forest.prior)
    counted = graph.op("Log", graph.op("Add", votes, 1 / (1 + np.exp(-prior))))
    other = graph.op("Log", graph.op("Add", others, 1 / (1 + np.exp(prior))))
    sign = np.where(flipped, -1.0, 1.0)
    return graph.cast(graph.op("Mul", graph.op("Sub", counted, other), sign), np.float32)


def boosters_logits(graph: Graph, boosters: Boosters, matrix: str) -> str:
    """The logits (batch, C) of boosters; one more tree, which is a leaf, adds the bias."""
    bias = FlatTrees.of(
        features=boosters.trees.features,
        leaves=1,
        roots=[~0],
        feature=(),
        threshold=(),
        children=(),
        missing_left=(),
    )
    trees, classes = FlatTrees.join([boosters.trees, bias]), len(boosters.bias)
    leaf_tree = _trees_of(trees)[1][:-1]
    label = np.repeat(np.arange(classes), boosters.rounds)[leaf_tree]
    values = _Values(
        np.concatenate([np.arange(len(leaf_tree)), np.full(classes, len(leaf_tree))]),
        np.concatenate([label, np.arange(classes)]),
        np.concatenate([boosters.leaf_values, boosters.bias]),
    )
    return _ensemble(graph, trees, values, matrix, outputs=classes)


def tree_bytes(model: object) -> int:
    """About how many bytes the trees of a model take in an ONNX file; 0 if it has none."""
    if isinstance(model, Forest):
        return 2 * _NODE * model.trees.leaves + _VALUE * len(_votes(model, model.prior > 0).leaf)
    return (2 * _NODE + _VALUE) * model.trees.leaves if isinstance(model, Boosters) else 0


def _votes(forest: Forest, flipped: Array) -> _Values:
    """The shares of positives in each leaf, or of negatives if a label is flipped."""
    shares = forest.shares.tocsc()
    against = type(forest.shares)(1.0 - shares[:, flipped].toarray().astype(np.float64)).tocoo()
    kept = shares[:, ~flipped].tocoo()
    parts = [(kept, np.flatnonzero(~flipped)), (against, np.flatnonzero(flipped))]
    return _Values(
        np.concatenate([part.row for part, _ in parts]),
        np.concatenate([labels[part.col] for part, labels in parts]),
        np.concatenate([part.data.astype(np.float64) for part, _ in parts]),
    )


def _trees_of(trees: FlatTrees) -> tuple[Array, Array]:
    """The tree of each node, and that of each leaf."""
    node_tree, leaf_tree = np.zeros(len(trees.feature), np.int64), np.zeros(trees.leaves, np.int64)
    reached, tree = trees.roots, np.arange(len(trees.roots))
    while reached.size:
        inner = reached >= 0
        leaf_tree[~reached[~inner]] = tree[~inner]
        node_tree[reached[inner]] = tree[inner]
        reached, tree = trees.children[reached[inner]].reshape(-1), tree[inner].repeat(2)
    return node_tree, leaf_tree


class _Nodes(NamedTuple):
    """Nodes and leaves in a common numbering."""

    tree: Array
    feature: Array
    mode: Array
    value: Array
    true: Array
    false: Array
    missing: Array


def _ensemble(graph: Graph, trees: FlatTrees, values: _Values, matrix: str, *, outputs: int) -> str:
    """The sums (batch, outputs) in float32 of the values of the leaves that each row reaches."""
    node_tree, leaf_tree = _trees_of(trees)
    nodes = _with_chains(trees, node_tree, leaf_tree)
    order = np.argsort(nodes.tree, kind="stable")  # nodes of a tree are neighbours, and its root is the first
    first = np.searchsorted(nodes.tree[order], np.arange(len(trees.roots)))
    number = np.empty_like(order)
    number[order] = np.arange(len(order)) - first[nodes.tree[order]]
    sorted_nodes = _Nodes(*(each[order] for each in nodes))
    by_tree = np.argsort(leaf_tree[values.leaf], kind="stable")
    values = _Values(*(each[by_tree] for each in values))
    return graph.op(
        "TreeEnsembleRegressor",
        graph.cast(matrix, np.float64),
        n_targets=outputs,
        nodes_treeids=sorted_nodes.tree,
        nodes_nodeids=number[order],
        nodes_featureids=sorted_nodes.feature,
        nodes_modes=sorted_nodes.mode,
        nodes_values_as_tensor=sorted_nodes.value,
        nodes_truenodeids=number[sorted_nodes.true],
        nodes_falsenodeids=number[sorted_nodes.false],
        nodes_missing_value_tracks_true=sorted_nodes.missing,
        target_treeids=leaf_tree[values.leaf],
        target_nodeids=number[len(node_tree) + values.leaf],
        target_ids=values.output,
        target_weights_as_tensor=values.value,
    )


def _with_chains(trees: FlatTrees, node_tree: Array, leaf_tree: Array) -> _Nodes:
    """Nodes, then leaves, then further nodes: a set of categories is a chain of comparisons with one each.

    All comparisons of a chain lead to the same node if they hold. ONNX Runtime joins them to one set.
    """
    count, leaves = len(node_tree), len(leaf_tree)
    references = np.where(trees.children >= 0, trees.children, count + ~trees.children)
    true, false = references[:, 0].astype(np.int64), references[:, 1].astype(np.int64)
    value, mode = trees.threshold.astype(np.float64), np.full(count, b"BRANCH_LEQ", dtype=object)
    further: list[tuple[int, int, int]] = []  # the node at the head of the chain, the category, the next node
    for node in np.flatnonzero(trees.category_set >= 0).tolist():
        first, *others = _categories(trees, trees.category_set[node]) or [-1]
        mode[node], value[node] = b"BRANCH_EQ", first
        last = int(false[node])
        for another in reversed(others):
            further.append((node, another, last))
            last = count + leaves + len(further) - 1
        false[node] = last
    missing = trees.missing_left * (trees.category_set < 0)
    head, category, after = np.array(further, dtype=np.int64).reshape(-1, 3).T
    none = np.zeros(leaves, dtype=np.int64)
    return _Nodes(
        tree=np.concatenate([node_tree, leaf_tree, node_tree[head]]),
        feature=np.concatenate([trees.feature, none, trees.feature[head]]),
        mode=np.concatenate(
            [mode, np.full(leaves, b"LEAF", object), np.full(len(head), b"BRANCH_EQ", object)]
        ),
        value=np.concatenate([value, none, category]).astype(np.float64),
        true=np.concatenate([true, none, true[head]]),
        false=np.concatenate([false, none, after]),
        missing=np.concatenate([missing, none, np.zeros_like(head)]),
    )


def _categories(trees: FlatTrees, number: int) -> list[int]:
    """The categories of a set."""
    words = trees.set_words[trees.set_starts[number] : trees.set_starts[number + 1]]
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    categories: list[int] = np.flatnonzero(bits).tolist()
    return categories
