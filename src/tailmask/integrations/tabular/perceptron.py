"""The estimator's multi-layer perceptron."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["Perceptron", "take_rows"]

BLOCK = 4096  # rows of new data at once, so that sparse ones are never dense as a whole


def take_rows(features: Any, index: Any) -> Tensor:
    """Rows of an array or a scipy CSR matrix as a dense tensor of their own.

    >>> take_rows(np.eye(3), [2, 0])
    tensor([[0., 0., 1.],
            [1., 0., 0.]], dtype=torch.float64)
    """
    rows = features[index]
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    return torch.from_numpy(np.require(rows, requirements=("C", "W")))  # torch warns of read-only memory


class Perceptron(nn.Module):
    """Layers of the given sizes, rectified in between, whose initial weights come from `generator` alone.

    The weights are uniform in ±1/√inputs, as in `nn.Linear`.

    >>> Perceptron([4, 8, 3], torch.Generator().manual_seed(0))(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(self, sizes: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for inputs, outputs in itertools.pairwise(sizes):
            # Made without values, so that torch's own generator stays as it is.
            layer = nn.Linear(inputs, outputs, device="meta", dtype=torch.float32).to_empty(device="cpu")
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -(inputs**-0.5), inputs**-0.5, generator=generator)
            self.layers.append(layer)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, C)."""
        *hidden, last = self.layers
        for layer in hidden:
            inputs = layer(inputs).relu_()
        logits: Tensor = last(inputs)
        return logits

    @torch.no_grad()
    def predict(self, features: Any) -> Tensor:
        """Logits (N, C) of an array or CSR matrix in float64: a row's don't depend on the rows beside it."""
        weights = [[p.double() for p in layer.parameters()] for layer in self.layers]
        blocks = []
        for start in range(0, features.shape[0], BLOCK):
            block = take_rows(features, slice(start, start + BLOCK)).double()
            for index, (weight, bias) in enumerate(weights):
                block = nn.functional.linear(block if index == 0 else block.relu_(), weight, bias)
            blocks.append(block)
        return torch.cat(blocks)

    def is_finite(self) -> bool:
        """Whether all weights are numbers to compute with, as they are not where training has diverged."""
        return all(bool(parameter.isfinite().all()) for parameter in self.parameters())
