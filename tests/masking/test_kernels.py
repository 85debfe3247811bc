"""Each fast kernel against the plain function that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import reference
from tailmask import PartialLabelMasking, functional
from tailmask.masking import kernels

SHAPES = [(3, 2), (40, 7), (700, 40), (70, 4000), (9000, 30)]  # the last two are cut into blocks


def make_batch(shape, *, scale=3.0):
    generator = torch.Generator().manual_seed(1)
    logits = scale * torch.randn(shape, generator=generator)
    targets = (torch.rand(shape, generator=generator) < 0.2).float()
    ratio = torch.rand(shape[1], generator=generator) + 0.05
    return logits, targets, functional.keep_probability(ratio, torch.full_like(ratio, 0.5))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("num_bins", [2, 10, 17])
@pytest.mark.parametrize("unknown", [False, True])
def test_histograms_are_those_of_the_plain_function(shape, num_bins, unknown):
    logits, targets, _ = make_batch(shape, scale=12.0)  # some outputs are exactly 0 or 1
    known = None
    if unknown:
        known = torch.rand(shape) < 0.7
        targets = torch.where(known, (targets * 0.8 + 0.1), 0.0)
    expected = functional.histogram(logits.sigmoid(), targets, num_bins, known=known)
    assert torch.equal(kernels.histogram(logits.sigmoid(), targets, num_bins, known=known), expected)
    counts = torch.ones(2, shape[1], num_bins, dtype=torch.int64)
    kernels.add_histogram(counts, logits, targets, known=known)
    assert torch.equal(counts - 1, expected)


@pytest.mark.parametrize("num_bins", [2, 3, 7, 10])
def test_outputs_on_the_edges_of_bins(num_bins):
    edges = (np.arange(num_bins + 1) / num_bins).astype(np.float32)
    nearby = [np.nextafter(edges, np.float32(side)) for side in (0, 1)]
    outputs = np.concatenate([edges, *nearby]).reshape(-1, 1)
    labels = np.zeros_like(outputs)
    counts = kernels.histogram(torch.from_numpy(outputs), torch.from_numpy(labels), num_bins)
    np.testing.assert_array_equal(counts, reference.histogram(outputs, labels, num_bins))


class TestDraw:
    """The law of the draw; that of the plain function is tested with it."""

    @pytest.mark.parametrize("shape", [(300, 5), (4096, 25)], ids=["small", "large"])
    def test_shares_are_the_probabilities(self, shape):
        keep = torch.tensor([[0.0, 0.003, 0.25, 0.9, 1.0], [1.0, 0.5, 0.7, 0.0, 0.1]])
        keep = keep.repeat(1, shape[1] // 5)
        targets = (torch.arange(shape[0]) % 2).float().unsqueeze(1).expand(shape).contiguous()
        generator = torch.Generator().manual_seed(1)
        repeats = 400 if shape[0] < 1000 else 40
        kept = torch.stack([kernels.draw(keep, targets, generator) for _ in range(repeats)]).mean(dim=0)
        for label in (0, 1):
            share = kept[targets[:, 0] == label].mean(dim=0)
            deviation = (keep[label] * (1 - keep[label]) / (repeats * shape[0] / 2)).sqrt()
            assert ((share - keep[label]).abs() <= 4.5 * deviation).all()

    def test_probabilities_below_16_bits_are_right_on_average(self):
        keep = torch.full((2, 2**10), 3e-6)  # a fifth of 2⁻¹⁶
        targets = torch.zeros(2**10, 2**10)
        generator = torch.Generator().manual_seed(0)
        kept = sum(kernels.draw(keep, targets, generator).sum().item() for _ in range(60))
        expected = 60 * 2**20 * 3e-6
        assert abs(kept - expected) < 5 * expected**0.5

    @pytest.mark.parametrize("shape", [(10, 10), (600, 40)])
    def test_certain_labels_are_certain(self, shape):
        keep = torch.tensor([[1.0], [0.0]]).repeat(1, shape[1])
        targets = (torch.rand(shape) < 0.5).float()
        for _ in range(200):
            assert torch.equal(kernels.draw(keep, targets), 1 - targets)

    def test_labels_are_independent(self):
        mask = kernels.draw(torch.full((2, 8), 0.5), torch.zeros(20000, 8)).numpy()
        assert np.abs(np.corrcoef(mask.T) - np.eye(8)).max() < 0.03
        for column in mask.T:
            assert abs(np.corrcoef(column[:-1], column[1:])[0, 1]) < 0.03

    def test_another_batch_is_another_draw(self):
        keep, targets = torch.full((2, 40), 0.5), torch.zeros(600, 40)
        one, same = (kernels.draw(keep, targets, torch.Generator().manual_seed(7)) for _ in range(2))
        assert torch.equal(one, same)
        generator = torch.Generator().manual_seed(7)
        first, second = (kernels.draw(keep, targets, generator) for _ in range(2))
        assert torch.equal(first, one)
        assert 0.45 < (first == second).float().mean() < 0.55


class TestMaskedCrossEntropy:
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("scale", [0.01, 3.0, 40.0])
    def test_is_the_plain_loss_of_the_labels_that_it_keeps(self, shape, scale):
        logits, targets, keep = make_batch(shape, scale=scale)
        logits.requires_grad_()
        counts = torch.zeros(2, shape[1], 10, dtype=torch.int64)
        loss = kernels.masked_cross_entropy(logits, targets, keep, counts=counts, scale=0.5)
        (gradient,) = torch.autograd.grad(loss, logits)
        mask = (gradient != 0) | ((logits.sigmoid() - targets) == 0)
        exact = logits.detach().double().requires_grad_()
        expected = 0.5 * F.binary_cross_entropy_with_logits(
            exact, targets.double(), weight=mask.double(), reduction="sum"
        )
        (expected_gradient,) = torch.autograd.grad(expected, exact)
        torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1e-5, atol=1e-7)
        assert torch.equal(counts, functional.histogram(logits.detach().sigmoid(), targets))

    def test_keeps_the_share_that_it_should(self):
        _, targets, keep = make_batch((700, 40))
        logits = torch.zeros_like(targets, requires_grad=True)
        generator = torch.Generator().manual_seed(0)
        kept = torch.zeros_like(targets)
        for _ in range(50):
            loss = kernels.masked_cross_entropy(logits, targets, keep, generator=generator)
            kept += torch.autograd.grad(loss, logits)[0] != 0
        expected = functional.label_keep(keep, targets)
        for label in (0, 1):
            share = torch.where(targets == label, kept, 0.0).sum(dim=0) / (50 * (targets == label).sum(dim=0))
            assert (share - keep[label]).abs().max() < 0.05
        assert (kept[expected == 1] == 50).all()

    def test_second_derivatives(self):
        logits, targets, keep = make_batch((700, 40))
        logits.requires_grad_()
        loss = kernels.masked_cross_entropy(logits, targets, keep)
        (gradient,) = torch.autograd.grad(loss, logits, create_graph=True)
        (curvature,) = torch.autograd.grad(gradient.sum(), logits)
        probability = logits.detach().sigmoid()
        torch.testing.assert_close(curvature, probability * (1 - probability) * (gradient != 0))

    def test_gradients_scale_and_can_be_taken_twice(self):
        logits, targets, keep = make_batch((700, 40))
        logits.requires_grad_()
        loss = kernels.masked_cross_entropy(logits, targets, keep)
        (one,) = torch.autograd.grad(loss, logits, retain_graph=True)
        (two,) = torch.autograd.grad(3 * loss, logits)
        torch.testing.assert_close(two, 3 * one)


class TestSmallMaskedCrossEntropy:
    def test_is_torch_s_own_with_the_drawn_mask(self):
        logits, targets, keep = make_batch((40, 7))
        logits.requires_grad_()
        counts = torch.zeros(2, 7, 10, dtype=torch.int64)
        generators = [torch.Generator().manual_seed(3) for _ in range(2)]
        loss = kernels.small_masked_cross_entropy(
            logits, targets, keep.unbind(), counts=counts, generator=generators[0]
        )
        mask = (torch.rand(40, 7, generator=generators[1]) < functional.label_keep(keep, targets)).float()
        assert 0.1 < mask.mean() < 0.99
        expected = F.binary_cross_entropy_with_logits(logits, targets, weight=mask)
        assert torch.equal(loss, expected)
        assert torch.equal(*[torch.autograd.grad(each, logits)[0] for each in (loss, expected)])
        assert torch.equal(counts, functional.histogram(logits.detach().sigmoid(), targets))

    @pytest.mark.parametrize("value", [-1.0, 0.5, 1e-6, 2.0, torch.inf, -torch.inf, torch.nan])
    def test_is_not_for_other_labels(self, value):
        logits, targets, _ = make_batch((40, 7))
        counts = torch.zeros(2, 7, 10)
        assert kernels.is_small_and_plain(logits, targets, counts)
        targets[5, 3] = value
        assert not kernels.is_small_and_plain(logits, targets, counts)

    @pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
    def test_is_not_for_outputs_that_are_not_finite(self, value):
        logits, targets, _ = make_batch((40, 7))
        logits[5, 3] = value
        assert not kernels.is_small_and_plain(logits, targets, torch.zeros(2, 7, 10))

    def test_is_not_for_other_shapes_and_types(self):
        logits, targets, _ = make_batch((40, 7))
        large, _, _ = make_batch((700, 40))
        for one, other, num_classes in [
            (logits, targets, 8),
            (logits, targets[:, :1], 7),
            (logits.double(), targets.double(), 7),
            (logits, targets.int(), 7),
            (logits.view(40, 7, 1), targets.view(40, 7, 1), 7),
            (large, torch.zeros_like(large), 40),
        ]:
            assert not kernels.is_small_and_plain(one, other, torch.zeros(2, num_classes, 10))


class TestInTheCriterion:
    @pytest.mark.parametrize("shape", [(40, 7), (2000, 20)], ids=["small", "large"])
    def test_batches_follow_new_ratios(self, shape):
        logits, targets, _ = make_batch(shape)
        logits.requires_grad_()
        criterion = PartialLabelMasking.from_targets(targets, rate=1e3)
        unmasked = criterion(logits, targets)
        assert torch.equal(unmasked, F.binary_cross_entropy_with_logits(logits, targets))
        criterion.step()
        assert not criterion.trained_keep.equal(criterion.keep)
        (gradient,) = torch.autograd.grad(criterion(logits, targets), logits)
        assert criterion.trained_keep.equal(criterion.keep)
        assert (gradient == 0).any()
        fresh = PartialLabelMasking.from_targets(targets)
        state = fresh.state_dict()
        criterion.load_state_dict(state)
        assert torch.equal(criterion(logits, targets), unmasked)
        assert criterion.trained_keep.equal(fresh.keep)

    @pytest.mark.parametrize("reduction", ["mean", "batchmean", "sum"])
    @pytest.mark.parametrize("image", [False, True])
    def test_a_large_batch_has_the_loss_of_its_parts(self, reduction, image):
        logits, targets, _ = make_batch((2000, 20))
        if image:
            logits, targets = (each.view(20, 100, 20).movedim(-1, 1) for each in (logits, targets))
        logits.requires_grad_()
        criterion = PartialLabelMasking.from_targets(targets, initial_ratio="mean", reduction=reduction)
        loss = criterion(logits, targets)
        loss.backward()
        weight = (logits.grad != 0).float()
        assert 0.1 < weight.mean() < 0.99
        known = {"mean": targets.numel(), "batchmean": len(targets), "sum": 1}[reduction]
        expected = F.binary_cross_entropy_with_logits(logits, targets, weight=weight, reduction="sum") / known
        torch.testing.assert_close(loss, expected)
        assert criterion.counts.sum() == targets.numel()

    def test_a_large_batch_without_masks_is_torch_s_own(self):
        logits, targets, _ = make_batch((2000, 20))
        logits.requires_grad_()
        loss = PartialLabelMasking.from_targets(targets)(logits, targets)
        expected = F.binary_cross_entropy_with_logits(logits, targets)
        assert torch.equal(loss, expected)
        gradients = [torch.autograd.grad(each, logits)[0] for each in (loss, expected)]
        assert torch.equal(*gradients)

    def test_validation_statistics_leave_the_counts_alone(self):
        logits, targets, _ = make_batch((2000, 20))
        criterion = PartialLabelMasking.from_targets(targets, initial_ratio="mean", statistics="validation")
        criterion(logits.requires_grad_(), targets).backward()
        assert not criterion.counts.any()
