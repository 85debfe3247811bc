"""What the criterion warns of, once each: training goes on, but perhaps not as it was meant."""

from __future__ import annotations

import warnings

import pytest
import torch

from tailmask import PartialLabelMasking

NUM_CLASSES = 4


class TestTwoPasses:
    def test_training_and_held_out_outputs_in_one_step_warn_once(self, logits, targets):
        criterion = PartialLabelMasking.from_targets(targets, adapt="prevalence", statistics="training")
        for index in range(3):
            criterion(logits, targets)
            criterion.update(logits, targets)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                criterion.step()
            assert len(caught) == (index == 0)
        criterion = PartialLabelMasking.from_targets(targets)
        criterion(logits, targets)
        criterion.update(logits, targets)
        with pytest.warns(UserWarning, match='both forward and update.* statistics="validation"') as caught:
            criterion.step()
        assert caught[0].filename == __file__

    def test_one_source_of_outputs_a_step_does_not_warn(self, logits, targets):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            criterion = PartialLabelMasking.from_targets(targets)
            criterion(logits, targets)
            criterion.step()
            criterion.update(logits, targets)
            criterion.step()
            criterion(logits, targets)
            criterion.reset()
            criterion.update(logits, targets)
            criterion.eval()(logits, targets)
            criterion.step()
            criterion = PartialLabelMasking.from_targets(targets, statistics="validation")
            criterion(logits, targets)
            criterion.update(logits, targets)
            criterion.step()


class TestTooFewClasses:
    @pytest.mark.parametrize("counts", [([30], [70]), ([30, 0], [70, 100]), ([0], [10])])
    @pytest.mark.filterwarnings("ignore:.* classes have no")
    def test_scores_over_one_class_move_nothing(self, counts):
        with pytest.warns(
            UserWarning, match=r'two with both labels .* got [01]: pass adapt="prevalence"'
        ) as caught:
            criterion = PartialLabelMasking.from_counts(*counts, rate=1.0)
        assert caught[-1].filename == __file__
        targets = torch.zeros(50, criterion.num_classes)
        targets[:20, 0] = 1
        criterion(torch.randn(targets.shape, requires_grad=True), targets)
        before = criterion.target_ratio.clone()
        assert torch.equal(criterion.step().target_ratio, before)

    @pytest.mark.parametrize(
        "options",
        [
            {"adapt": "prevalence"},
            {"adapt": lambda counts: torch.zeros(counts.shape[1])},
            {"rate": 0.0, "initial_ratio": [1.0]},  # a fixed ratio is not to move
        ],
    )
    def test_others_need_one(self, options):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            PartialLabelMasking.from_counts([30], [70], **options)

    def test_of_two_classes_only_the_sign_counts(self):
        for scale in (0.1, 1.0, 5.0):
            criterion = PartialLabelMasking.from_counts([30, 10], [70, 90], rate=1.0)
            targets = (torch.rand(200, 2) < torch.tensor([0.3, 0.1])).float()
            logits = scale * torch.tensor([1.0, -1.0]).expand(200, 2) + torch.randn(200, 2)
            criterion.update(logits, targets)
            gap = criterion.step().gap
            assert gap.abs().tolist() == pytest.approx([2, 2], abs=1e-3)


def test_warnings_name_the_classes_where_names_are_known():
    with pytest.warns(UserWarning, match=r"no positives in the training data \(class owl\)"):
        criterion = PartialLabelMasking.from_counts([30, 0], [70, 100], classes=["cat", "owl"], rate=20.0)
    criterion.update(torch.full((2, 2), 3.0), torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    criterion.target_ratio[0] *= 1e6
    with pytest.warns(UserWarning, match="are kept for class cat"):
        criterion.step()
    with pytest.raises(ValueError, match="classes must name 2 classes, got 1 names"):
        PartialLabelMasking.from_counts([1, 1], [1, 1], classes=["cat"])


def test_a_hardly_kept_class_warns_once(targets):
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
