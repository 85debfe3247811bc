"""The shift that turns outputs back into probabilities: of the ratios that the network was trained at."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tailmask import PartialLabelMasking, losses


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
            targets, initial_ratio=torch.tensor([1.5]), expected=True, rate=0.0
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

        criterion = PartialLabelMasking.from_targets(targets, loss=hinge)
        assert not criterion.supports_prior_shift
        with pytest.warns(UserWarning, match=r"prior_shift .* binary cross-entropy, not for"):
            criterion.prior_shift()

    def test_cross_entropy_of_torch_and_ours_needs_no_warning(self, targets):
        for loss in (nn.BCEWithLogitsLoss(reduction="none"), losses.BinaryCrossEntropy(reduction="none")):
            criterion = PartialLabelMasking.from_targets(targets, loss=loss)
            assert criterion.supports_prior_shift
            criterion.prior_shift()


def epoch(criterion, targets):
    criterion(torch.randn(targets.shape, requires_grad=True), targets).backward()


def in_force(criterion):
    return (criterion.class_ratio / criterion.target_ratio).log()


class TestTrainedRatios:
    """The documented loop ends with a step, to ratios that nothing is trained at."""

    def test_one_epoch_without_masks_needs_no_shift(self):
        criterion = PartialLabelMasking.from_counts([30, 10], [70, 90], rate=1.0)
        criterion(torch.randn(50, 2, requires_grad=True), (torch.rand(50, 2) < 0.3).float())
        update = criterion.step()
        assert not torch.equal(update.target_ratio, criterion.class_ratio)
        assert (criterion.prior_shift() == 0).all()

    def test_is_of_the_last_training_pass(self, targets):
        criterion = PartialLabelMasking.from_targets(targets, rate=0.5)
        for _ in range(3):
            epoch(criterion, targets)
            expected = in_force(criterion)
            torch.testing.assert_close(criterion.prior_shift(), expected)
            criterion.step()
            torch.testing.assert_close(criterion.prior_shift(), expected)
        assert expected.abs().min() > 0.01
        assert not torch.allclose(in_force(criterion), expected, atol=1e-3)

    def test_passes_that_do_not_train_leave_it(self, targets):
        criterion = PartialLabelMasking.from_targets(targets, rate=0.5)
        epoch(criterion, targets)
        criterion.step()
        logits = torch.randn(targets.shape, requires_grad=True)
        criterion.update(logits, targets)
        criterion.eval()(logits, targets)
        with torch.no_grad():
            criterion.train()(logits, targets)
        assert (criterion.prior_shift() == 0).all()

    def test_training_whose_outputs_are_not_recorded_counts(self, targets):
        criterion = PartialLabelMasking.from_targets(
            targets, initial_ratio="mean", statistics="validation", rate=1.0
        )
        expected = in_force(criterion)
        epoch(criterion, targets)
        criterion.update(torch.randn(targets.shape), targets)
        criterion.step()
        torch.testing.assert_close(criterion.prior_shift(), expected)

    def test_before_any_training_it_is_of_the_ratios_to_start_from(self, targets):
        criterion = PartialLabelMasking.from_targets(targets, initial_ratio="max")
        torch.testing.assert_close(criterion.prior_shift(), in_force(criterion))

    @pytest.mark.filterwarnings("ignore:1 of 3 classes have no")
    def test_a_class_that_was_trained_unmasked_has_none(self):
        criterion = PartialLabelMasking.from_counts(
            [30, 0, 10], [70, 100, 90], initial_ratio="mean", rate=1.0
        )
        targets = (torch.rand(50, 3) < 0.3).float()
        epoch(criterion, targets)
        criterion.step()
        assert criterion.prior_shift()[1] == 0
        criterion.set_class_counts([30, 50, 10], [70, 50, 90])  # nothing has been trained with them yet
        assert criterion.prior_shift()[1] == 0
        assert criterion.prior_shift()[[0, 2]].abs().min() > 0.1

    def test_new_class_counts_tell_with_the_next_pass(self, targets):
        criterion = PartialLabelMasking.from_targets(targets, rate=0.5)
        epoch(criterion, targets)
        criterion.step()
        criterion.set_class_counts([50, 50, 50, 50], [150, 150, 150, 150])
        assert (criterion.prior_shift() == 0).all()
        epoch(criterion, targets)
        torch.testing.assert_close(criterion.prior_shift(), in_force(criterion))

    def test_extreme_ratios_are_finite(self):
        criterion = PartialLabelMasking.from_counts(
            [1, 10**12], [10**12, 1], initial_ratio=[1e12, 1e-12], rate=0.0
        )
        torch.testing.assert_close(criterion.prior_shift(), torch.tensor([-2.0, 2.0]) * 12 * 2.302585)

    def test_is_part_of_the_state(self, targets):
        criterion, resumed = (PartialLabelMasking.from_targets(targets, rate=0.5) for _ in range(2))
        for _ in range(2):
            epoch(criterion, targets)
            criterion.step()
        assert criterion.prior_shift().abs().min() > 0.01
        resumed.load_state_dict(criterion.state_dict())
        assert torch.equal(resumed.prior_shift(), criterion.prior_shift())

    def test_a_result_is_the_callers_own(self, targets):
        criterion = PartialLabelMasking.from_targets(targets, initial_ratio="mean")
        before = criterion.prior_shift()
        criterion.prior_shift().zero_()
        assert torch.equal(criterion.prior_shift(), before)
