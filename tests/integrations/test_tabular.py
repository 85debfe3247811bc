"""The estimator's parts, each against what it stands in for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from tailmask.integrations.tabular.held_out_samples import hold_out
from tailmask.integrations.tabular.perceptron import Perceptron


def test_weights_start_as_those_of_a_linear_layer():
    network = Perceptron([400, 300, 5], torch.Generator().manual_seed(0))
    weight = network.layers[0].weight
    assert weight.abs().max() <= 0.05
    assert weight.std().item() == pytest.approx(0.05 / 3**0.5, rel=0.01)
    assert network.layers[1].bias.shape == (5,)


def test_predictions_are_the_forward_pass_in_blocks(monkeypatch):
    monkeypatch.setattr("tailmask.integrations.tabular.perceptron.BLOCK", 4)
    network = Perceptron([3, 6, 2], torch.Generator().manual_seed(0))
    features = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    torch.testing.assert_close(network.predict(features).float(), network(torch.from_numpy(features)))


@given(
    seed=st.integers(0, 2**16),
    fraction=st.floats(0.05, 0.5),
    shares=st.lists(st.floats(0.01, 0.6), min_size=1, max_size=6),
)
@example(seed=1, fraction=0.5, shares=[0.5, 0.375, 0.5, 0.5, 0.5, 0.5])
def test_a_fair_share_of_every_class_is_held_out(seed, fraction, shares):
    generator = torch.Generator().manual_seed(seed)
    targets = (torch.rand(200, len(shares), generator=generator) < torch.tensor(shares)).float()
    kept, held = hold_out(targets, fraction, generator)
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(200))
    positives, away = targets.sum(dim=0).tolist(), targets[held].sum(dim=0).tolist()
    rarest = int(targets.sum(dim=0).argsort()[0])
    for index, (number, gone) in enumerate(zip(positives, away, strict=True)):
        fair = max(0, min(int(fraction * number + 0.5), number - 1))
        # The rarest class gets just its share; others may lose more, along with rarer ones, or less where
        # all that is left of them has a rarer label, which was served before.
        left = targets[kept][targets[kept][:, index] == 1]
        rarer = [other for other in range(len(shares)) if other != index and positives[other] <= number]
        is_used_up = bool((left[:, rarer] == 1).any(dim=1).all())
        assert gone == fair if index == rarest else gone >= fair or is_used_up
        assert gone < number or number <= 1


def test_one_class_a_sample_is_split_evenly():
    indices = torch.arange(100) % 4
    targets = torch.nn.functional.one_hot(indices, 4)
    _, held = hold_out(targets, 0.2, torch.Generator().manual_seed(0))
    assert targets[held].sum(dim=0).tolist() == [5, 5, 5, 5]


@pytest.mark.parametrize("seed", range(5))
def test_samples_without_a_known_label_are_not_held_out(seed):
    targets = torch.full((200, 3), -1.0)
    targets[:8] = torch.tensor([[1.0, 0.0, -1.0], [0.0, 0.0, -1.0]] * 4)
    kept, held = hold_out(targets, 0.2, torch.Generator().manual_seed(seed))
    assert len(kept) + len(held) == 200
    assert 1 <= len(held) <= 2
    assert held.max() < 8
