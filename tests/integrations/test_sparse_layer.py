"""The first layer on sparse rows: outputs and gradients of the dense layer."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse

from tailmask.integrations.tabular.perceptron import Perceptron, SparseRows


def test_outputs_and_gradients_are_those_of_dense_rows():
    matrix = sparse.random_array(
        (7, 30), density=0.05, dtype=np.float32, rng=np.random.default_rng(0)
    ).tocsr()
    for sizes in ([30, 4], [30, 6, 4]):
        network = Perceptron(sizes, torch.Generator().manual_seed(0))
        outputs, gradients = [], []
        for rows in (SparseRows(matrix)[2:], torch.from_numpy(matrix.toarray())[2:]):
            outputs.append(network(rows))
            loss = outputs[-1].square().sum()
            gradients.append(torch.autograd.grad(loss, list(network.parameters())))
        torch.testing.assert_close(*outputs)
        torch.testing.assert_close(*gradients)
