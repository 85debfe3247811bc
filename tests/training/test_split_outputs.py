"""Outputs of a network on a whole split, which leave the network as it was."""

from __future__ import annotations

from factories import frozen
from tiny import tiny_dataset

from tailmask.training.split_outputs import predict


def test_prediction_leaves_frozen_layers_frozen() -> None:
    network, split = frozen((6,), 4), tiny_dataset().test
    modes = [module.training for module in network.modules()]
    predict(network, split)
    assert [module.training for module in network.modules()] == modes
    network.eval()
    predict(network, split)
    assert not any(module.training for module in network.modules())
