"""The loss itself: what it computes, for which labels, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import reference
from tailmask import PartialLabelMasking, losses

NUM_CLASSES = 4


class TestUnmasked:
    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    def test_is_bce_to_the_last_bit(self, logits, targets, reduction):
        criterion = PartialLabelMasking.from_targets(targets, reduction=reduction)
        expected = nn.BCEWithLogitsLoss(reduction=reduction)(logits, targets)
        assert torch.equal(criterion(logits, targets), expected)

    def test_gradient_is_bces_to_the_last_bit(self, logits, targets):
        criterion = PartialLabelMasking.from_targets(targets)
        (gradient,) = torch.autograd.grad(criterion(logits, targets), logits)
        (expected,) = torch.autograd.grad(nn.BCEWithLogitsLoss()(logits, targets), logits)
        assert torch.equal(gradient, expected)

    def test_general_path_is_bce_to_the_last_bit(self, logits, targets):
        # Soft labels take the path that other devices take, too.
        soft = targets * 0.8 + 0.1
        criterion = PartialLabelMasking.from_targets(targets)
        assert torch.equal(criterion(logits, soft), nn.BCEWithLogitsLoss()(logits, soft))

    def test_batchmean_is_the_papers_sum_over_classes(self, logits, targets):
        criterion = PartialLabelMasking.from_targets(targets, reduction="batchmean")
        expected = reference.masked_loss(logits.detach().numpy(), targets.numpy(), np.ones(targets.shape))
        assert criterion(logits, targets).item() == pytest.approx(expected.mean(), rel=1e-5)


class TestMasked:
    def masked(self, targets, **options):
        return PartialLabelMasking.from_targets(targets, initial_ratio="mean", **options)

    def test_is_the_reference_s_loss_of_the_labels_that_are_kept(self, logits, targets):
        loss = self.masked(targets, reduction="batchmean")(logits, targets)
        mask = torch.autograd.grad(loss, logits)[0] != 0
        assert 0 < mask.float().mean() < 1
        expected = reference.masked_loss(logits.detach().numpy(), targets.numpy(), mask.int().numpy())
        assert loss.item() == pytest.approx(expected.mean(), rel=1e-5)

    def test_ratio_of_kept_labels_is_the_target_ratio(self, targets):
        criterion = self.masked(targets, reduction="none", generator=torch.Generator().manual_seed(0))
        logits = torch.zeros_like(targets, requires_grad=True)
        kept = torch.stack([criterion(logits, targets) > 0 for _ in range(400)]).float().mean(dim=0)
        positives, negatives = (kept * targets).sum(dim=0), (kept * (1 - targets)).sum(dim=0)
        torch.testing.assert_close(positives / negatives, criterion.target_ratio, rtol=0.05, atol=0)

    def test_masked_labels_have_no_gradient_and_others_keep_theirs(self, logits, targets):
        criterion = self.masked(targets, reduction="sum")
        (gradient,) = torch.autograd.grad(criterion(logits, targets), logits)
        plain = torch.sigmoid(logits.detach()) - targets
        kept = gradient != 0
        assert 0 < kept.float().mean() < 1
        torch.testing.assert_close(gradient[kept], plain[kept])

    def test_mean_divides_by_known_labels_not_by_kept_ones(self, logits, targets):
        generator = torch.Generator()
        mean = self.masked(targets, generator=generator.manual_seed(5))(logits, targets)
        total = self.masked(targets, generator=generator.manual_seed(5), reduction="sum")(logits, targets)
        torch.testing.assert_close(mean, total / targets.numel())

    def test_expected_is_the_mean_over_draws(self, logits, targets):
        expected = self.masked(targets, expected=True)(logits, targets)
        drawn = self.masked(targets)
        mean = torch.stack([drawn(logits, targets).detach() for _ in range(600)]).mean()
        torch.testing.assert_close(mean, expected, rtol=0.01, atol=0)

    def test_keep_of_ten_thousand_classes(self):
        targets = (torch.rand(64, 10_000) < 0.3).float()
        targets[0], targets[1] = 1, 0
        criterion = PartialLabelMasking.from_targets(targets, initial_ratio="max", reduction="none")
        losses = criterion(torch.zeros_like(targets, requires_grad=True), targets)
        assert (losses[targets == 1] > 0).all()  # only negatives are masked where the ratio is raised
        assert 0.05 < (losses[targets == 0] > 0).float().mean() < 0.95

    @pytest.mark.parametrize("mode", ["eval", "no_grad"])
    def test_only_training_masks_and_records(self, logits, targets, mode):
        criterion = self.masked(targets)
        if mode == "eval":
            value = criterion.eval()(logits, targets)
        else:
            with torch.no_grad():
                value = criterion(logits, targets)
        torch.testing.assert_close(value, F.binary_cross_entropy_with_logits(logits, targets))
        assert not criterion.counts.any()


class TestLabels:
    @pytest.mark.parametrize("unknown", [-1.0, torch.nan])
    def test_unknown_labels_count_nowhere(self, targets, unknown):
        hidden = torch.rand(targets.shape) < 0.3
        with_unknown = targets.masked_fill(hidden, unknown)
        criterion = PartialLabelMasking.from_targets(with_unknown)
        assert criterion.class_counts.sum() == (~hidden).sum()
        logits = torch.randn(targets.shape, requires_grad=True)
        loss = criterion(logits, with_unknown)
        loss.backward()
        expected = F.binary_cross_entropy_with_logits(logits[~hidden], targets[~hidden])
        torch.testing.assert_close(loss, expected)
        assert (logits.grad[hidden] == 0).all()
        assert logits.grad.isfinite().all()
        assert criterion.counts.sum() == (~hidden).sum()
        torch.testing.assert_close(criterion.eval()(logits, with_unknown), expected)

    def test_a_batch_of_unknown_labels_costs_nothing(self, targets):
        criterion = PartialLabelMasking.from_targets(targets)
        logits = torch.randn(3, NUM_CLASSES, requires_grad=True)
        loss = criterion(logits, torch.full((3, NUM_CLASSES), torch.nan))
        loss.backward()
        assert loss == 0
        assert (logits.grad == 0).all()

    def test_soft_labels_go_by_their_side_of_a_half(self, targets):
        criterion = PartialLabelMasking.from_targets(
            targets, initial_ratio="max", expected=True, reduction="none"
        )
        soft = (targets * 0.6 + 0.2).clone()
        logits = torch.randn(targets.shape, requires_grad=True)
        keep = torch.where(targets > 0, criterion.keep[1], criterion.keep[0])
        expected = keep * F.binary_cross_entropy_with_logits(logits, soft, reduction="none")
        torch.testing.assert_close(criterion(logits, soft), expected)
        assert torch.equal(criterion.counts.sum(dim=2)[1], targets.sum(dim=0).long())

    def test_class_indices_are_one_hot_rows(self):
        indices = torch.randint(3, (50,))
        criterion = PartialLabelMasking.from_targets(indices, num_classes=3)
        logits = torch.randn(50, 3, requires_grad=True)
        rows = F.one_hot(indices, 3).float()
        assert torch.equal(criterion(logits, indices), F.binary_cross_entropy_with_logits(logits, rows))
        unknown = indices.clone()
        unknown[:10] = -1
        expected = F.binary_cross_entropy_with_logits(logits[10:], rows[10:])
        torch.testing.assert_close(criterion(logits, unknown), expected)

    def test_boolean_and_integer_targets(self, logits, targets):
        criterion = PartialLabelMasking.from_targets(targets)
        expected = criterion(logits, targets)
        for dtype in (torch.bool, torch.uint8, torch.int64, torch.float64):
            assert torch.equal(criterion(logits, targets.to(dtype)), expected)

    def test_class_on_axis_one_of_an_image(self, targets):
        flat_logits, flat_targets = torch.randn(24, NUM_CLASSES), targets[:24]
        options = {"initial_ratio": "max", "expected": True}

        def as_image(flat):
            return flat.view(2, 3, 4, NUM_CLASSES).movedim(-1, 1)

        def both(reduction):
            criterion = PartialLabelMasking.from_targets(targets, reduction=reduction, **options)
            flat = criterion(flat_logits.requires_grad_(), flat_targets)
            image = criterion(as_image(flat_logits).requires_grad_(), as_image(flat_targets))
            assert criterion.counts.sum() == 2 * 24 * NUM_CLASSES
            return flat, image

        flat, image = both("mean")
        torch.testing.assert_close(image, flat)
        flat, image = both("none")
        torch.testing.assert_close(image, as_image(flat))

    @pytest.mark.parametrize("reduction", ["mean", "batchmean", "sum", "none"])
    @pytest.mark.parametrize("unknown", [False, True])
    def test_reductions_of_an_image_are_those_of_the_losses(self, targets, reduction, unknown):
        labels = targets[:24].view(2, 3, 4, NUM_CLASSES).movedim(-1, 1).clone()
        if unknown:
            labels[0, 1, 2] = -1
        logits = torch.randn(labels.shape, requires_grad=True)
        criterion = PartialLabelMasking.from_targets(targets, reduction=reduction)
        expected = losses.BinaryCrossEntropy(reduction=reduction)(logits, labels)
        torch.testing.assert_close(criterion(logits, labels), expected)

    def test_sample_weights_multiply_rows(self, logits, targets):
        weights = torch.rand(200)
        criterion = PartialLabelMasking.from_targets(targets)
        expected = F.binary_cross_entropy_with_logits(logits, targets, weight=weights.unsqueeze(1))
        torch.testing.assert_close(criterion(logits, targets, sample_weight=weights), expected)
        torch.testing.assert_close(criterion.eval()(logits, targets, sample_weight=weights), expected)


class TestOtherLosses:
    def test_any_elementwise_loss_is_masked(self, logits, targets):
        def squared(logits, targets):
            return (logits.sigmoid() - targets) ** 2

        options = {"initial_ratio": "mean", "reduction": "none"}
        custom = PartialLabelMasking.from_targets(
            targets, loss=squared, generator=torch.Generator().manual_seed(1), **options
        )
        plain = PartialLabelMasking.from_targets(
            targets, generator=torch.Generator().manual_seed(1), **options
        )
        kept = plain(logits, targets) != 0
        torch.testing.assert_close(custom(logits, targets), squared(logits, targets) * kept)

    def test_a_module_moves_and_saves_with_the_criterion(self, targets):
        loss = nn.BCEWithLogitsLoss(reduction="none", pos_weight=torch.ones(NUM_CLASSES))
        criterion = PartialLabelMasking.from_targets(targets, loss=loss)
        assert criterion.to("meta").loss.pos_weight.device.type == "meta"


def test_second_derivatives_and_double_precision(targets):
    criterion = PartialLabelMasking.from_targets(targets, initial_ratio="mean", expected=True)
    logits = torch.randn(6, NUM_CLASSES, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(criterion, (logits, targets[:6]))
    assert torch.autograd.gradgradcheck(criterion, (logits, targets[:6]))
