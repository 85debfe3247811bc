"""The loss itself: what it computes, what it records, and what it leaves alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import reference
from tailmask import PartialLabelMasking, functional

NUM_CLASSES = 4


@pytest.fixture
def targets():
    return (torch.rand(200, NUM_CLASSES) < torch.tensor([0.6, 0.3, 0.1, 0.05])).float()


@pytest.fixture
def logits():
    return torch.randn(200, NUM_CLASSES, requires_grad=True)


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

    def test_masks_are_the_reference_s(self, logits, targets):
        criterion = self.masked(targets, generator=torch.Generator().manual_seed(3), reduction="batchmean")
        keep = torch.where(targets > 0, criterion.keep[1], criterion.keep[0])
        mask = functional.draw(keep, torch.Generator().manual_seed(3))
        assert 0 < mask.mean() < 1
        expected = reference.masked_loss(logits.detach().numpy(), targets.numpy(), mask.numpy())
        assert criterion(logits, targets).item() == pytest.approx(expected.mean(), rel=1e-5)

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


class TestStatistics:
    def test_counts_all_known_labels_the_masked_ones_too(self, logits, targets):
        criterion = PartialLabelMasking.from_targets(targets, initial_ratio="max")
        criterion(logits, targets)
        outputs = torch.sigmoid(logits.detach()).numpy()
        np.testing.assert_array_equal(criterion.counts, reference.histogram(outputs, targets.numpy(), 10))

    def test_epochs_follow_the_reference(self, targets):
        criterion = PartialLabelMasking.from_targets(targets, rate=0.3, num_bins=8)
        ratio = reference.class_ratio(targets.numpy())
        for epoch in range(4):
            logits = torch.randn(200, NUM_CLASSES) * (epoch + 1)
            for part in logits.split(64):
                criterion(part.requires_grad_(), targets[: len(part)])
            outputs = [torch.sigmoid(part).numpy() for part in logits.split(64)]
            counts = sum(reference.histogram(part, targets[: len(part)].numpy(), 8) for part in outputs)
            ratio = reference.next_ratio(ratio, counts, 0.3)
            update = criterion.step()
            np.testing.assert_allclose(update.target_ratio, ratio, rtol=1e-4)
            np.testing.assert_allclose(update.divergence, reference.divergence(counts), rtol=1e-4)
        assert criterion.num_steps == 4

    def test_step_starts_an_epoch_anew(self, logits, targets):
        criterion = PartialLabelMasking.from_targets(targets)
        criterion(logits, targets)
        criterion.step()
        assert not criterion.counts.any()

    def test_blocks_of_classes_count_like_one(self, monkeypatch):
        targets, logits = (torch.rand(30, 50) < 0.4).float(), torch.randn(30, 50, requires_grad=True)
        targets[0, 0] = torch.nan
        whole, blocks = (PartialLabelMasking.from_targets(targets) for _ in range(2))
        whole(logits, targets)
        monkeypatch.setattr("tailmask.masking.ratios._BLOCK", 30 * 7)
        blocks(logits, targets)
        assert torch.equal(whole.counts, blocks.counts)

    def test_update_records_without_a_loss(self, logits, targets):
        criterion = PartialLabelMasking.from_targets(targets, record=False)
        criterion(logits, targets)
        assert not criterion.counts.any()
        criterion.eval().update(logits, targets)
        assert criterion.counts.sum() == targets.numel()

    def test_state_is_constant_in_samples(self):
        num_classes = 100_000
        positives = torch.randint(1, 50, (num_classes,))
        criterion = PartialLabelMasking.from_counts(positives, 1000 - positives)

        def state_bytes():
            return sum(tensor.numel() * tensor.element_size() for tensor in criterion.state_dict().values())

        before = state_bytes()
        assert before < num_classes * (2 * 10 * 8 + 64)
        for _ in range(3):
            logits = torch.randn(8, num_classes, requires_grad=True)
            criterion(logits, (torch.rand(8, num_classes) < 0.01).float()).backward()
        assert state_bytes() == before

    def test_rate_matching_comes_to_rest(self):
        targets = torch.zeros(100, 2)
        targets[:30, 0] = targets[:10, 1] = 1
        criterion = PartialLabelMasking.from_targets(targets, adapt="rate", warmup=0)
        assert criterion.rate == 0.1
        criterion(torch.where(targets > 0, 3.0, -3.0).requires_grad_(), targets)
        update = criterion.step()
        assert torch.equal(update.target_ratio, criterion.class_ratio)
        criterion(torch.full_like(targets, -3.0).requires_grad_(), targets)  # nothing is predicted
        assert (criterion.step().target_ratio > criterion.class_ratio).all()

    def test_a_class_that_is_trained_unmasked_keeps_its_ratio(self):
        with pytest.warns(UserWarning, match="1 of 2 classes have no positives"):
            criterion = PartialLabelMasking.from_counts([30, 0], [70, 100], adapt="rate", warmup=0)
        held_out = torch.tensor([[1.0, 1.0], [0.0, 0.0]])  # where the second class does have a positive
        criterion.update(torch.full_like(held_out, -3.0), held_out)
        before = criterion.target_ratio.clone()
        update = criterion.step()
        assert update.target_ratio[0] > before[0]
        assert (update.target_ratio[1], update.gap[1]) == (before[1], 0)

    def test_warmup_leaves_the_first_ratios(self, targets):
        criterion = PartialLabelMasking.from_targets(targets, warmup=2, rate=1.0)
        for epoch in range(3):
            criterion(torch.randn(200, NUM_CLASSES, requires_grad=True), targets)
            moved = not torch.equal(criterion.step().target_ratio, criterion.class_ratio)
            assert moved == (epoch == 2)

    def test_adapt_can_be_a_function(self, logits, targets):
        criterion = PartialLabelMasking.from_targets(
            targets, rate=1.0, adapt=lambda counts: torch.full((counts.shape[1],), 0.5)
        )
        criterion(logits, targets)
        torch.testing.assert_close(criterion.step().target_ratio, criterion.class_ratio * np.exp(0.5))


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
        criterion = PartialLabelMasking.from_targets(targets, initial_ratio="max", expected=True)

        def as_image(flat):
            return flat.view(2, 3, 4, NUM_CLASSES).movedim(-1, 1)

        def both(reduction):
            criterion.reduction = reduction
            flat = criterion(flat_logits.requires_grad_(), flat_targets)
            return flat, criterion(as_image(flat_logits).requires_grad_(), as_image(flat_targets))

        flat, image = both("mean")
        torch.testing.assert_close(image, flat)
        flat, image = both("none")
        torch.testing.assert_close(image, as_image(flat))
        half = criterion.counts.sum() / 4
        assert half == 24 * NUM_CLASSES

    def test_sample_weights_multiply_rows(self, logits, targets):
        weights = torch.rand(200)
        criterion = PartialLabelMasking.from_targets(targets)
        expected = F.binary_cross_entropy_with_logits(logits, targets, weight=weights.unsqueeze(1))
        torch.testing.assert_close(criterion(logits, targets, sample_weight=weights), expected)
        torch.testing.assert_close(criterion.eval()(logits, targets, sample_weight=weights), expected)


class TestRatios:
    def test_initial_ratios(self, targets):
        ratio = torch.from_numpy(reference.class_ratio(targets.numpy())).float()
        for name, expected in {
            "class": ratio,
            "mean": ratio.mean(),
            "min": ratio.min(),
            "max": ratio.max(),
        }.items():
            criterion = PartialLabelMasking.from_targets(targets, initial_ratio=name)
            torch.testing.assert_close(criterion.target_ratio, expected.expand(NUM_CLASSES))
        chosen = torch.tensor([0.1, 0.2, 0.3, 0.4])
        criterion = PartialLabelMasking.from_targets(targets, initial_ratio=chosen)
        assert torch.equal(criterion.target_ratio, chosen)

    def test_range_clips_the_initial_ratio_and_each_update(self, targets):
        criterion = PartialLabelMasking.from_targets(targets, ratio_range=(0.2, 1.0), rate=5.0)
        assert criterion.target_ratio.min() == pytest.approx(0.2)
        assert criterion.target_ratio.max() == pytest.approx(1.0)
        criterion(torch.randn(200, NUM_CLASSES, requires_grad=True), targets)
        ratio = criterion.step().target_ratio
        assert ((ratio >= 0.2 - 1e-6) & (ratio <= 1)).all()

    @pytest.mark.parametrize("initial", ["class", "mean", "min", "max"])
    @pytest.mark.parametrize("limits", [None, (0.0, 1.0)])
    def test_classes_without_a_label_stay_and_are_named(self, initial, limits):
        targets = torch.zeros(40, 4)
        targets[:10, 0] = targets[:20, 1] = 1
        targets[:, 3] = 1
        with pytest.warns(UserWarning, match="in the training data") as caught:
            criterion = PartialLabelMasking.from_targets(
                targets, initial_ratio=initial, ratio_range=limits, rate=1.0
            )
        messages = [str(warning.message) for warning in caught]
        assert "1 of 4 classes have no negatives in the training data (class 3)" in messages[0]
        assert "1 of 4 classes have no positives in the training data (class 2)" in messages[1]
        assert caught[0].filename == __file__  # the warning points at the caller
        before = criterion.target_ratio.clone()
        assert (criterion.keep[:, 2:] == 1).all()
        for _ in range(3):
            logits = torch.randn(40, 4, requires_grad=True)
            loss = criterion(logits, targets)
            loss.backward()
            assert loss.isfinite()
            update = criterion.step()
        assert torch.equal(update.target_ratio[2:], before[2:])
        assert not torch.equal(update.target_ratio[:2], before[:2])
        assert update.target_ratio.isfinite().all()
        assert (criterion.prior_shift()[2:] == 0).all()

    def test_new_class_counts_change_the_masks_not_the_target(self, targets):
        criterion = PartialLabelMasking.from_targets(targets)
        target = criterion.target_ratio.clone()
        criterion.set_class_counts([100, 100, 100, 100], [100, 100, 100, 100])
        assert torch.equal(criterion.target_ratio, target)
        torch.testing.assert_close(
            criterion.keep, functional.keep_probability(torch.ones(NUM_CLASSES), target)
        )

    def test_a_hardly_kept_class_warns_once(self, targets):
        criterion = PartialLabelMasking.from_targets(targets, rate=20.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(4):
                criterion(torch.randn(200, NUM_CLASSES, requires_grad=True), targets)
                criterion.step()
        named = [
            name
            for warning in caught
            for name in str(warning.message).split("class ")[1].split(":")[0].split(", ")
        ]
        assert len(named) == len(set(named)) > 0


class TestPriorShift:
    def test_gives_the_data_s_own_probabilities_back(self):
        # A linear model on one-hot inputs learns each input's log odds exactly; PLM shifts them by the ratio.
        torch.manual_seed(0)
        inputs = torch.randint(5, (20_000,))
        targets = (
            torch.rand(20_000, 1) < torch.tensor([0.02, 0.05, 0.1, 0.3, 0.6])[inputs].unsqueeze(1)
        ).float()
        model = nn.Embedding(5, 1)
        criterion = PartialLabelMasking.from_targets(
            targets, initial_ratio=torch.tensor([1.5]), expected=True
        )
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=50)
        optimizer.step(
            lambda: (optimizer.zero_grad(), loss := criterion(model(inputs), targets), loss.backward())[1]
        )
        logits = model.weight.detach()
        empirical = torch.stack([targets[inputs == index].mean() for index in range(5)]).unsqueeze(1)
        torch.testing.assert_close((logits + criterion.prior_shift()).sigmoid(), empirical, atol=2e-3, rtol=0)
        assert (logits.sigmoid() - empirical).abs().max() > 0.1

    def test_warns_for_other_losses(self, targets):
        def hinge(logits, targets):
            return F.relu(1 - logits * (2 * targets - 1))

        with pytest.warns(UserWarning, match="prior_shift holds for binary cross-entropy"):
            PartialLabelMasking.from_targets(targets, loss=hinge).prior_shift()

    def test_cross_entropy_of_torch_and_ours_needs_no_warning(self, targets):
        from tailmask import losses

        for loss in (nn.BCEWithLogitsLoss(reduction="none"), losses.BinaryCrossEntropy(reduction="none")):
            PartialLabelMasking.from_targets(targets, loss=loss).prior_shift()


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
