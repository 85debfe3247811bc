"""The ratios of learners that are no networks, against `PartialLabelMasking` and `functional`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tailmask import PartialLabelMasking, functional
from tailmask.masking.ratio_track import Masking, RatioTrack


@pytest.fixture
def targets():
    generator = np.random.default_rng(0)
    targets = (generator.random((200, 4)) < [0.5, 0.2, 0.05, 0.7]).astype(np.int8)
    targets[generator.random(targets.shape) < 0.1] = -1
    return targets


@pytest.mark.parametrize("adapt", ["divergence", "prevalence"])
@pytest.mark.parametrize("options", [{}, {"initial_ratio": "mean"}, {"ratio_range": (0.1, 1.0)}])
def test_ratios_are_those_of_the_criterion(targets, adapt, options):
    """The same outputs move them to the same numbers, bit for bit."""
    track = RatioTrack(Masking(adapt=adapt, rate=0.3, warmup=1, **options), targets)
    criterion = PartialLabelMasking.from_targets(
        targets, adapt=adapt, rate=0.3, warmup=1, statistics="validation", **options
    )
    for seed in range(4):
        logits = torch.randn(200, 4, generator=torch.Generator().manual_seed(seed))
        track.update(logits, targets)
        criterion.update(logits, torch.from_numpy(targets))
        criterion.step()
        assert torch.equal(track.target_ratio, criterion.target_ratio)
        assert torch.equal(track.keep, criterion.keep)
    assert not torch.equal(track.target_ratio, criterion.class_ratio)


def test_label_weights_are_keep_probabilities(targets):
    """By hand: 12 positives and 48 negatives at a ratio of 1 keep a quarter of the negatives."""
    targets = np.repeat(np.array([[1, 0], [0, 1], [0, 1], [0, 1], [0, 1], [-1, -1]], np.int8), 12, axis=0)
    track = RatioTrack(Masking(initial_ratio="mean", ratio_range=(1.0, 2.0)), targets)
    track.target_ratio = torch.ones(2)
    weights = track.label_weights(targets)
    np.testing.assert_allclose(weights[::12], [[1, 1], [0.25, 0.25], *[[0.25, 0.25]] * 3, [0, 0]])
    expected = functional.keep_probability(torch.tensor([0.25, 4.0]), torch.ones(2))
    assert torch.equal(track.keep, expected)
    np.testing.assert_allclose(track.prior_shift, np.log([0.25, 4.0]), rtol=1e-6)


def test_class_without_positives_is_neither_masked_nor_moved(targets):
    targets[:, 1] = 0
    track = RatioTrack(Masking(initial_ratio="max"), targets)
    before = track.target_ratio[1].clone()
    track.update(torch.zeros(200, 4), targets)
    assert track.target_ratio[1] == before
    assert (track.keep[:, 1] == 1).all()
    assert track.prior_shift[1] == 0


@pytest.mark.parametrize(
    "options", [{"updates": 0}, {"adapt": "rate"}, {"rate": -1.0}, {"num_bins": 3}, {"ratio_range": (1, 0)}]
)
def test_options_without_sense_are_refused(options):
    with pytest.raises(ValueError, match=r"update|adapt|rate|num_bins|ratio_range"):
        Masking(**options)
