"""The estimator's multi-layer perceptron."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

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


def _product(left: Any, right: Any) -> Tensor:
    """Matrix product of arrays by NumPy or SciPy; at these sizes NumPy is faster than torch."""
    return torch.from_numpy(left @ right)


class _Layers(torch.autograd.Function):
    """All layers as one step of autograd; the parameters are each layer's weight and bias.

    Sparse rows cost what their stored values cost, not what a dense copy would.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor | SparseRows, *parameters: Tensor) -> Tensor:
        ctx.inputs = [rows.matrix if isinstance(rows, SparseRows) else rows.numpy()]  # of each layer
        ctx.weights = [weight.numpy() for weight in parameters[::2]]  # (outputs, inputs) of each layer
        outputs = _product(ctx.inputs[0], ctx.weights[0].T).add_(parameters[1])
        for weight, bias in zip(ctx.weights[1:], parameters[3::2], strict=True):
            ctx.inputs.append(outputs.relu_().numpy())
            outputs = _product(ctx.inputs[-1], weight.T).add_(bias)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients  # (B, outputs) of the layer
        found: list[Tensor] = []
        for inputs, weight in zip(reversed(ctx.inputs), reversed(ctx.weights), strict=True):
            found = [_product(gradient.numpy().T, inputs), gradient.sum(dim=0), *found]
            if inputs is not ctx.inputs[0]:
                gradient = _product(gradient.numpy(), weight).mul_(torch.from_numpy(inputs).sign())  # of ReLU
        return None, *found


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
            with torch.random.fork_rng(devices=()):  # nn.Linear draws values from torch's global generator
                layer = nn.Linear(inputs, outputs, device="cpu", dtype=torch.float32)
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -(inputs**-0.5), inputs**-0.5, generator=generator)
            self.layers.append(layer)
        self._in_order = tuple(self.parameters())  # collecting them in each step would slow small batches

    def forward(self, inputs: Tensor | SparseRows) -> Tensor:
        """Logits (N, C)."""
        logits: Tensor = _Layers.apply(inputs, *self._in_order)  # type: ignore[no-untyped-call]  # torch's own
        return logits

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
        return not any(bool((0 * parameter).any()) for parameter in self._in_order)  # 0 · ∞ is NaN
