"""What the loss records, and the ratios that it moves."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import reference
from tailmask import PartialLabelMasking, functional

NUM_CLASSES = 4


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

    def test_update_records_without_a_loss(self, logits, targets):
        criterion = PartialLabelMasking.from_targets(targets, statistics="validation")
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
        criterion = PartialLabelMasking.from_targets(
            targets, adapt="prevalence", statistics="training", warmup=0
        )
        assert criterion.rate == 0.1
        criterion(torch.where(targets > 0, 3.0, -3.0).requires_grad_(), targets)
        update = criterion.step()
        assert torch.equal(update.target_ratio, criterion.class_ratio)
        criterion(torch.full_like(targets, -3.0).requires_grad_(), targets)  # nothing is predicted
        assert (criterion.step().target_ratio > criterion.class_ratio).all()

    def test_a_class_that_is_trained_unmasked_keeps_its_ratio(self):
        with pytest.warns(UserWarning, match="1 of 2 classes have no positives"):
            criterion = PartialLabelMasking.from_counts([30, 0], [70, 100], adapt="prevalence", warmup=0)
        held_out = torch.tensor([[1.0, 1.0], [0.0, 0.0]])  # where the second class does have a positive
        criterion.update(torch.full_like(held_out, -3.0), held_out)
        before = criterion.target_ratio.clone()
        update = criterion.step()
        assert update.target_ratio[0] > before[0]
        assert (update.target_ratio[1], update.gap[1]) == (before[1], 0)

    @pytest.mark.parametrize("adapt", ["prevalence", "divergence"])
    def test_a_class_that_is_trained_unmasked_does_not_steer_the_others(self, adapt):
        held_out = (torch.rand(200, 3) < torch.tensor([0.5, 0.2, 0.02])).float()
        logits = torch.randn(200, 3) + 4 * held_out - 2
        found = (torch.rand(200, 1) < 0.5).float()  # a class that only held-out data have positives of
        gaps = []
        for positives, outputs, targets in (
            ([90, 40, 4], logits, held_out),
            ([90, 40, 4, 0], torch.hstack([logits, found - 2]), torch.hstack([held_out, found])),
        ):
            class_counts = torch.tensor([[200 - number for number in positives], positives])
            with warnings.catch_warnings(action="ignore"):
                criterion = PartialLabelMasking(class_counts, adapt=adapt)
            criterion.update(outputs, targets)
            gaps.append(criterion.step().gap)
        assert gaps[0].abs().max() > 0.1
        torch.testing.assert_close(gaps[1], torch.cat([gaps[0], torch.zeros(1)]))

    def test_the_update_by_prevalence_fits_itself_to_the_number_of_epochs(self, targets):
        def fitted(**options):
            criterion = PartialLabelMasking.from_targets(targets, **options)
            return criterion.rate, criterion.warmup

        assert fitted(adapt="prevalence") == (0.1, 5)
        assert {fitted(adapt="prevalence", epochs=few) for few in (1, 2, 3)} == {(1.0, 1)}
        assert fitted(adapt="prevalence", epochs=10) == (0.7, 5)
        assert fitted(adapt="prevalence", epochs=20) == (0.5, 10)
        assert fitted(adapt="prevalence", epochs=60) == (0.3, 30)
        assert fitted(adapt="prevalence", epochs=60, rate=0.05, warmup=2) == (0.05, 2)
        assert fitted(epochs=60) == (0.01, 0), "the paper's update has no say in it"

    def test_warmup_leaves_the_first_ratios(self, targets):
        criterion = PartialLabelMasking.from_targets(targets, warmup=2, rate=1.0)
        for epoch in range(3):
            criterion(torch.randn(200, NUM_CLASSES, requires_grad=True), targets)
            moved = not torch.equal(criterion.step().target_ratio, criterion.class_ratio)
            assert moved == (epoch == 2)

    @pytest.mark.parametrize(
        ("options", "exponents"),
        [
            ({}, [0.5, 1.0, 1.5, 2.0]),
            ({"hold": 2}, [0.5, 1.0, 1.0, 1.0]),
            ({"hold": 0.75, "epochs": 4}, [0.5, 1.0, 1.5, 1.5]),
            ({"hold": 0.01, "epochs": 4}, [0.5, 0.5, 0.5, 0.5]),
            ({"hold": 3, "warmup": 1}, [0.0, 0.5, 1.0, 1.0]),
            ({"damp": True}, [0.25, 0.75, 0.8, 0.805]),
            ({"damp": True, "hold": 3}, [0.25, 0.75, 0.8, 0.8]),
        ],
    )
    def test_ratios_are_held_and_lambda_is_damped(self, logits, targets, options, exponents):
        """With a gap of 1 and λ = 0.5, each full update multiplies the ratios with exp(0.5)."""
        criterion = PartialLabelMasking.from_targets(
            targets, rate=0.5, adapt=lambda counts: torch.ones(counts.shape[1]), **options
        )
        for exponent, factor in zip(exponents, (0.5, 1.0, 0.1, 0.01), strict=True):
            criterion(logits, targets)
            ratio = criterion.step(lr_factor=factor).target_ratio
            torch.testing.assert_close(ratio, criterion.class_ratio * np.exp(exponent))

    @pytest.mark.parametrize("factor", [None, -0.1, float("nan"), float("inf")])
    def test_damping_needs_the_learning_rate(self, logits, targets, factor):
        criterion = PartialLabelMasking.from_targets(targets, rate=0.5, damp=True)
        criterion(logits, targets)
        counts = criterion.counts.clone()
        with pytest.raises(ValueError, match=r"call step\(lr_factor=lr / base_lr\)$"):
            criterion.step(lr_factor=factor)
        assert criterion.target_ratio.equal(criterion.class_ratio)
        assert criterion.counts.equal(counts)
        assert criterion.num_steps == 0

    def test_adapt_can_be_a_function(self, logits, targets):
        criterion = PartialLabelMasking.from_targets(
            targets, rate=1.0, adapt=lambda counts: torch.full((counts.shape[1],), 0.5)
        )
        criterion(logits, targets)
        torch.testing.assert_close(criterion.step().target_ratio, criterion.class_ratio * np.exp(0.5))


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
        for form in (chosen, chosen.double(), chosen.tolist(), chosen.numpy()):
            criterion = PartialLabelMasking.from_targets(targets, initial_ratio=form)
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

    def test_more_data_keep_how_far_the_ratios_are_from_their_start(self):
        criterion = PartialLabelMasking.from_counts([10, 30], [90, 70], initial_ratio="mean", rate=1.0)
        start = criterion.target_ratio.clone()
        criterion.update(torch.tensor([[3.0, -3.0]] * 10), torch.tensor([[1.0, 1.0], [0.0, 0.0]] * 5))
        moved = criterion.step().target_ratio / start
        criterion.extend_class_counts([60, 30], [140, 170])
        torch.testing.assert_close(criterion.target_ratio, moved * criterion.class_ratio.mean())
        keep = functional.keep_probability(criterion.class_ratio, criterion.target_ratio)
        assert criterion.keep.equal(keep)

    @pytest.mark.filterwarnings("ignore:1 of 2 classes have no", "ignore:.*compares classes")
    def test_a_class_that_more_data_complete_starts_as_was_asked(self):
        criterion = PartialLabelMasking.from_counts([10, 0], [20, 5], initial_ratio=[0.7, 0.7])
        criterion.extend_class_counts([20, 10], [40, 20])
        torch.testing.assert_close(criterion.target_ratio, torch.tensor([0.7, 0.7]))

    @pytest.mark.filterwarnings("ignore:1 of 2 classes have no", "ignore:.*compares classes")
    @pytest.mark.parametrize("first", [(10, 0), (0, 10), (0, 0)])
    @pytest.mark.parametrize("initial", ["class", "mean"])
    def test_a_class_that_gets_both_labels_starts_from_its_own_ratio(self, first, initial):
        criterion = PartialLabelMasking.from_counts(
            [10, first[0]], [20, first[1]], initial_ratio=initial, rate=1.0
        )
        for positives, negatives in [(0, 10), (0, 0), (10, 0)]:  # and gets one of them first, or neither
            criterion.set_class_counts([10, positives], [20, negatives])
            assert (criterion.keep == 1).all()
        criterion.set_class_counts([10, 10], [20, 5])
        assert criterion.target_ratio.tolist() == [0.5, 2.0]
        assert (criterion.keep == 1).all()

    @pytest.mark.filterwarnings("ignore:1 of 2 classes have no", "ignore:.*compares classes")
    def test_a_class_that_gets_both_labels_is_clipped(self):
        criterion = PartialLabelMasking.from_counts([10, 10], [20, 0], ratio_range=(0.0, 1.0))
        criterion.set_class_counts([10, 10], [20, 5])
        assert criterion.target_ratio.tolist() == [0.5, 1.0]
        assert criterion.keep.tolist() == [[1.0, 1.0], [1.0, 0.5]]

    def test_a_class_that_lacks_a_label_for_a_while_keeps_its_ratio(self, targets):
        criterion = PartialLabelMasking.from_targets(targets, rate=0.5)
        criterion(torch.randn(200, NUM_CLASSES, requires_grad=True), targets)
        moved = criterion.step().target_ratio
        keep = criterion.keep.clone()
        negatives, positives = criterion.class_counts.clone()
        criterion.set_class_counts(positives * torch.tensor([1, 1, 1, 0]), negatives)
        assert (criterion.keep[:, 3] == 1).all()
        criterion.set_class_counts(positives, negatives)
        assert torch.equal(criterion.target_ratio, moved)
        assert torch.equal(criterion.keep, keep)

    def test_new_class_counts_leave_the_caller_s_alone(self):
        counts = torch.tensor([[70, 90], [30, 10]])
        criterion = PartialLabelMasking(counts)
        criterion.set_class_counts([50, 50], [50, 50])
        assert counts.tolist() == [[70, 90], [30, 10]]
        assert criterion.class_counts.tolist() == [[50, 50], [50, 50]]
