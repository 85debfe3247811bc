"""Fitted models in an ONNX graph: from the matrices of their encoders to the logits of an ensemble."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from tailmask._util.messages import UserError
from tailmask.inference.classifier import Classifier
from tailmask.inference.onnx.graph import OPERATORS, Graph
from tailmask.inference.onnx.row_inputs import Encode, Landmarks
from tailmask.inference.onnx.tree_ensembles import boosters_logits, forest_logits, tree_bytes
from tailmask.learners.cross_fitting import FoldModels
from tailmask.learners.ensemble import Ensemble
from tailmask.learners.matrix.boosters import Boosters
from tailmask.learners.matrix.forest import Forest
from tailmask.learners.matrix.linear import LinearModel
from tailmask.learners.matrix.matrix_learner import FittedModel
from tailmask.learners.network_learner import FittedNetwork
from tailmask.learners.protocol import Fitted

__all__ = ["Single", "landmarks_of", "logits_of", "single_models"]

Single: TypeAlias = FittedModel | FittedNetwork

# ONNX files have less than this many bytes.
_LARGEST_FILE = 2**31


def single_models(fitted: Fitted) -> list[Single]:
    """The models that a model consists of: those of all arms and folds, in their order."""
    if isinstance(fitted, FoldModels | Ensemble):
        return [single for part in fitted.parts for single in single_models(part)]
    if isinstance(fitted, FittedModel) and not isinstance(fitted.model, LinearModel | Forest | Boosters):
        raise UserError(f"the learner {fitted.learner!r} has no form in ONNX")
    assert isinstance(fitted, FittedModel | FittedNetwork)
    return [fitted]


def logits_of(graph: Graph, fitted: Fitted, encode: Encode) -> str:
    """The logits (batch, C) in float32; see `Fitted.logits`."""
    singles = single_models(fitted)
    size = sum(tree_bytes(each.model) for each in singles if isinstance(each, FittedModel))
    if size > _LARGEST_FILE:
        raise UserError(
            f"its trees would take about {size / 1e9:.1f} GB in an ONNX file, and the format allows 2 GB"
        )
    encoded = [(single, encode(single.encoder)) for single in singles]
    networks = [(single, matrix) for single, matrix in encoded if isinstance(single, FittedNetwork)]
    outputs = iter(_network_logits(graph, networks) if networks else [])
    logits = [
        next(outputs) if isinstance(single, FittedNetwork) else _model_logits(graph, single, matrix)
        for single, matrix in encoded
    ]
    return _combined(graph, fitted, iter(logits))


def landmarks_of(single: Single) -> Iterator[Landmarks]:
    """The thresholds of trees, with the numbers directly beside them."""
    trees = getattr(getattr(single, "model", None), "trees", None)
    if trees is None:
        return
    # Larger thresholds separate missing values only.
    numeric = np.flatnonzero((trees.category_set < 0) & (abs(trees.threshold) < 1e30))
    feature, threshold = trees.feature[numeric], trees.threshold[numeric]
    order = np.lexsort((threshold, feature))
    columns, starts = np.unique(feature[order], return_index=True)
    for column, values in zip(columns.tolist(), np.split(threshold[order], starts[1:]), strict=False):
        some = np.unique(values)
        some = some[:: len(some) // 20 + 1]
        beside = [np.nextafter(some, np.float32(end), dtype=np.float32) for end in (-np.inf, np.inf)]
        yield Landmarks(single.encoder, column, np.concatenate([some, *beside]))


def _combined(graph: Graph, fitted: Fitted, logits: Iterator[str]) -> str:
    """The logits of a model from those of its single models; means and sums in float64."""
    if not isinstance(fitted, FoldModels | Ensemble):
        return next(logits)
    parts = [graph.cast(_combined(graph, part, logits), np.float64) for part in fitted.parts]
    if isinstance(fitted, Ensemble):
        how = fitted.combination
        parts = [
            graph.op("Add", graph.op("Mul", part, weight * slopes), weight * offsets)
            for part, weight, slopes, offsets in zip(parts, how.weights, how.slopes, how.offsets, strict=True)
        ]
    total = graph.op("Sum", *parts)
    if isinstance(fitted, FoldModels):
        total = graph.op("Div", total, np.array(float(len(parts))))
    return graph.cast(total, np.float32)


def _model_logits(graph: Graph, fitted: FittedModel, matrix: str) -> str:
    model = fitted.model
    if isinstance(model, LinearModel):
        logits = graph.op("Add", graph.op("MatMul", matrix, model.weights), model.bias)
    elif isinstance(model, Forest):
        logits = forest_logits(graph, model, matrix)
    else:
        assert isinstance(model, Boosters)
        logits = boosters_logits(graph, model, matrix)
    return logits if fitted.prior_shift is None else graph.op("Add", logits, fitted.prior_shift)


class _Networks(nn.Module):
    """Several networks side by side, each with its own inputs: exporting all takes as long as one."""

    def __init__(self, networks: Sequence[FittedNetwork]) -> None:
        super().__init__()
        self.classifiers = nn.ModuleList(
            Classifier(
                fitted.network,
                logit_scale=fitted.description.logit_scale,
                prior_shift=None
                if fitted.description.prior_shift is None
                else torch.tensor(fitted.description.prior_shift),
            )
            for fitted in networks
        )

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The logits (B, C) of each network."""
        pairs = zip(self.classifiers, inputs, strict=True)
        return tuple(classifier(each)[1] for classifier, each in pairs)


def _network_logits(graph: Graph, networks: Sequence[tuple[FittedNetwork, str]]) -> list[str]:
    """The logits (batch, C) of each network, from torch's exporter."""
    program = torch.onnx.export(
        _Networks([fitted for fitted, _ in networks]).eval(),
        tuple(torch.zeros(2, fitted.encoder.width) for fitted, _ in networks),
        dynamo=True,
        dynamic_shapes=(tuple({0: torch.export.Dim("batch")} for _ in networks),),
        opset_version=OPERATORS,
        verbose=False,
    )
    if program is None:
        raise RuntimeError("torch.onnx.export has given no program")
    return graph.embed(program.model_proto, [matrix for _, matrix in networks])
