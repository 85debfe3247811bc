"""The estimator's multi-layer perceptron."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["Perceptron", "SparseRows", "take_rows"]

BLOCK = 4096  # rows of new data at once, so sparse data are never dense as a whole


class SparseRows:
    """Rows of a scipy CSR matrix (N, F) instead of a dense tensor; slices are batches.

    >>> from scipy import sparse
    >>> len(SparseRows(sparse.csr_array(np.eye(3, dtype=np.float32)))[1:])
    2
    """

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def __getitem__(self, rows: slice) -> SparseRows:
        return SparseRows(self.matrix[rows])

    def isfinite(self) -> Tensor:
        """Whether each stored value is finite."""
        return torch.from_numpy(np.isfinite(self.matrix.data))


class _SparseLinear(torch.autograd.Function):
    """A linear layer on sparse rows: it costs what their stored values cost, not what a dense copy would."""

    @staticmethod
    def forward(ctx: Any, rows: SparseRows, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.rows = rows
        return torch.from_numpy(rows.matrix @ weight.detach().numpy().T).add_(bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, Tensor]:
        (gradient,) = gradients  # (B, outputs)
        return None, torch.from_numpy(ctx.rows.matrix.T @ gradient.numpy()).T, gradient.sum(dim=0)


def take_rows(features: Any, index: Any) -> Tensor:
    """A copy of some rows of an array or a scipy CSR matrix, as a dense tensor.

    >>> take_rows(np.eye(3), [2, 0])
    tensor([[0., 0., 1.],
            [1., 0., 0.]], dtype=torch.float64)
    """
    rows = features[index]
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    return torch.from_numpy(np.require(rows, requirements=("C", "W")))  # torch warns about read-only memory


class Perceptron(nn.Module):
    """Linear layers of the given sizes with ReLU in between. `generator` alone draws the initial weights.

    The weights are uniform in ±1/√inputs, as in `nn.Linear`.

    >>> Perceptron([4, 8, 3], torch.Generator().manual_seed(0))(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(self, sizes: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for inputs, outputs in itertools.pairwise(sizes):
            # Built without values, so torch's global generator does not change.
            layer = nn.Linear(inputs, outputs, device="meta", dtype=torch.float32).to_empty(device="cpu")
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -(inputs**-0.5), inputs**-0.5, generator=generator)
            self.layers.append(layer)

    def forward(self, inputs: Tensor | SparseRows) -> Tensor:
        """Logits (N, C)."""
        first, *others = self.layers
        if isinstance(inputs, SparseRows):
            outputs: Tensor = _SparseLinear.apply(inputs, first.weight, first.bias)  # type: ignore[no-untyped-call]  # torch's own
        else:
            outputs = first(inputs)
        for layer in others:
            outputs = layer(outputs.relu_())
        return outputs

    @torch.no_grad()
    def predict(self, features: Any) -> Tensor:
        """Logits (N, C) of an array or CSR matrix. In float64, a row's logits don't depend on other rows."""
        weights = [[p.double() for p in layer.parameters()] for layer in self.layers]
        blocks = []
        for start in range(0, features.shape[0], BLOCK):
            block = take_rows(features, slice(start, start + BLOCK)).double()
            for index, (weight, bias) in enumerate(weights):
                block = nn.functional.linear(block if index == 0 else block.relu_(), weight, bias)
            blocks.append(block)
        return torch.cat(blocks)

    def is_finite(self) -> bool:
        """True if all weights are finite. They are not if training has diverged."""
        return all(bool(parameter.isfinite().all()) for parameter in self.parameters())
