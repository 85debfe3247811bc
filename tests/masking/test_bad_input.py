"""What the criterion says to mistakes: one sentence each, at the place where it can be known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tailmask import PartialLabelMasking

TARGETS = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])


@pytest.fixture
def criterion():
    return PartialLabelMasking.from_targets(TARGETS)


def snapshot(criterion):
    return {name: tensor.clone() for name, tensor in criterion.state_dict().items()}


def assert_unchanged(criterion, before):
    for name, tensor in criterion.state_dict().items():
        assert torch.equal(tensor, before[name]), name


class TestForward:
    @pytest.mark.parametrize(
        ("logits", "targets", "message"),
        [
            (torch.zeros(4, 5), torch.zeros(4, 5), r"logits must have shape \(N, 3\), got \(4, 5\)"),
            (torch.zeros(3), torch.zeros(3), r"logits must have shape \(N, 3\), got \(3,\)"),
            (torch.zeros(4, 3), torch.zeros(4, 2), r"shape \(4, 3\), got \(4, 2\)"),
            (torch.zeros(4, 3), torch.zeros(5, 3), r"shape \(4, 3\), got \(5, 3\)"),
            (torch.zeros(4, 3), torch.zeros(4), "must be integers"),
        ],
    )
    def test_shapes(self, criterion, logits, targets, message):
        before = snapshot(criterion)
        with pytest.raises(ValueError, match=message):
            criterion(logits.requires_grad_(), targets)
        assert_unchanged(criterion, before)

    def test_class_counts_of_another_data_set_are_suspected(self, criterion):
        with pytest.raises(ValueError, match="did the class counts come from another data set"):
            criterion(torch.zeros(2, 4), torch.zeros(2, 4))

    def test_sample_weight_of_another_batch(self, criterion):
        with pytest.raises(ValueError, match=r"sample_weight must have shape \(4,\), got \(3,\)"):
            criterion(torch.zeros(4, 3), TARGETS, sample_weight=torch.ones(3))

    def test_a_loss_that_reduces(self):
        with pytest.raises(ValueError, match='pass reduction="none"'):
            PartialLabelMasking.from_targets(TARGETS, loss=nn.BCEWithLogitsLoss())
        criterion = PartialLabelMasking.from_targets(TARGETS, loss=F.binary_cross_entropy_with_logits)
        with pytest.raises(ValueError, match='pass reduction="none"'):
            criterion(torch.zeros(4, 3, requires_grad=True), TARGETS)

    @pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
    def test_bad_logits_poison_nothing_and_step_says_so(self, criterion, value):
        before = snapshot(criterion)
        logits = torch.randn(4, 3)
        logits[1, 2] = value
        logits.requires_grad_()
        loss = criterion(logits, TARGETS)
        loss.backward()
        usable = torch.ones(4, 3, dtype=torch.bool)
        usable[1, 2] = False
        expected = F.binary_cross_entropy_with_logits(logits.detach()[usable], TARGETS[usable])
        torch.testing.assert_close(loss.detach(), expected)
        assert logits.grad.isfinite().all()
        assert criterion.counts.sum() == 11
        recorded = snapshot(criterion)
        with pytest.raises(ValueError, match="1 logits were NaN or infinite: lower the learning rate"):
            criterion.step()
        assert_unchanged(criterion, recorded)
        criterion.reset()
        assert_unchanged(criterion, before)

    @pytest.mark.parametrize("value", [2.0, -0.5, 255.0, torch.inf])
    def test_bad_targets_poison_nothing_and_step_says_so(self, criterion, value):
        targets = TARGETS.clone()
        targets[0, 0] = value
        logits = torch.randn(4, 3, requires_grad=True)
        loss = criterion(logits, targets)
        loss.backward()
        assert loss.isfinite()
        assert logits.grad[0, 0] == 0
        with pytest.raises(ValueError, match=r"unknown .* got 1 others"):
            criterion.step()

    @pytest.mark.parametrize("dtype", [torch.int64, torch.int16])
    def test_class_indices_out_of_range_are_no_negatives(self, criterion, dtype):
        indices = torch.tensor([5, 1, -100, -1], dtype=dtype)
        logits = torch.randn(4, 3, requires_grad=True)
        loss = criterion(logits, indices)
        loss.backward()
        expected = F.binary_cross_entropy_with_logits(logits.detach()[1], torch.tensor([0.0, 1.0, 0.0]))
        torch.testing.assert_close(loss.detach(), expected)
        assert (logits.grad[[0, 2, 3]] == 0).all()
        assert criterion.counts.sum() == 3
        with pytest.raises(ValueError, match=r"class indices in range, got 2 others"):
            criterion.step()

    def test_an_unsigned_index_of_255_is_not_unknown(self, criterion):
        criterion(torch.zeros(2, 3, requires_grad=True), torch.tensor([1, 255], dtype=torch.uint8))
        with pytest.raises(ValueError, match="got 1 others"):
            criterion.step()

    def test_validate_says_it_at_once(self):
        criterion = PartialLabelMasking.from_targets(TARGETS, validate=True)
        before = snapshot(criterion)
        with pytest.raises(ValueError, match="12 logits were NaN"):
            criterion(torch.full((4, 3), torch.nan, requires_grad=True), TARGETS)
        with pytest.raises(ValueError, match="got 12 others"):
            criterion(torch.zeros(4, 3, requires_grad=True), TARGETS + 7)
        with pytest.raises(ValueError, match="got 1 others"):
            criterion(torch.zeros(2, 3, requires_grad=True), torch.tensor([0, -100]))
        assert_unchanged(criterion, before)

    def test_evaluation_shows_bad_logits_as_torch_does(self, criterion):
        assert criterion.eval()(torch.full((4, 3), torch.nan), TARGETS).isnan()


class TestStep:
    def test_nothing_recorded(self, criterion):
        before = snapshot(criterion)
        with pytest.raises(ValueError, match=r"step\(\) .* got none: call the criterion in training"):
            criterion.step()
        assert_unchanged(criterion, before)

    @pytest.mark.parametrize("value", [torch.nan, torch.inf])
    def test_a_gap_that_is_no_number(self, value):
        criterion = PartialLabelMasking.from_targets(
            TARGETS, adapt=lambda counts: torch.tensor([0.0, value, -value]), classes=["cat", "dog", "owl"]
        )
        criterion(torch.zeros(4, 3, requires_grad=True), TARGETS)
        before = snapshot(criterion)
        with pytest.raises(ValueError, match=r"finite gaps, got (nan|inf) for class dog, owl"):
            criterion.step()
        assert_unchanged(criterion, before)

    @pytest.mark.filterwarnings("ignore:1 of 3 classes have no positives")
    def test_a_gap_that_is_no_number_where_it_is_not_used(self):
        criterion = PartialLabelMasking.from_counts(
            [1, 2, 0], [3, 2, 4], adapt=lambda counts: torch.tensor([0.0, 1.0, torch.nan])
        )
        criterion(torch.zeros(4, 3, requires_grad=True), TARGETS)
        assert criterion.step().gap.tolist() == [0.0, 1.0, 0.0]

    def test_gap_of_the_wrong_shape(self):
        criterion = PartialLabelMasking.from_targets(TARGETS, adapt=lambda counts: counts.sum())
        criterion(torch.zeros(4, 3, requires_grad=True), TARGETS)
        before = snapshot(criterion)
        with pytest.raises(ValueError, match=r"adapt .* shape \(3,\), got \(\)"):
            criterion.step()
        assert_unchanged(criterion, before)


class TestState:
    def test_of_another_class_count(self, criterion):
        other = PartialLabelMasking.from_counts([1, 1], [1, 1])
        before = snapshot(criterion)
        with pytest.raises(ValueError, match="3 classes and 10 bins"):
            criterion.load_state_dict(other.state_dict())
        assert_unchanged(criterion, before)

    def test_of_other_bins(self, criterion):
        other = PartialLabelMasking.from_targets(TARGETS, num_bins=4)
        with pytest.raises(ValueError, match=r"10 bins, got counts of shape .*: build the criterion"):
            criterion.load_state_dict(other.state_dict())

    def test_class_counts_of_another_set(self, criterion):
        with pytest.raises(ValueError, match="3 classes, got 2"):
            criterion.set_class_counts([1, 2], [3, 4])


class TestConstruction:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"adapt": "divergense"}, "did you mean 'divergence'"),
            ({"reduction": "avg"}, "choose from mean, batchmean, sum, none"),
            ({"loss": "focal"}, r"such as tailmask.losses.FocalLoss\(reduction=\"none\"\), got 'focal'"),
            ({"loss": nn.BCEWithLogitsLoss}, "loss must be a callable, .* got <class "),
            ({"initial_ratio": "mode"}, "did you mean|choose from"),
            ({"initial_ratio": torch.ones(2)}, r"shape \(3,\)"),
            ({"initial_ratio": torch.zeros(3)}, "initial_ratio must be finite and above 0, got 0, 0, 0"),
            ({"initial_ratio": [0.1, 0.2]}, r"numbers of shape \(3,\), got shape \(2,\)"),
            ({"initial_ratio": np.array([1.0, 2.0, np.inf])}, "finite and above 0, got inf"),
            ({"initial_ratio": [0.1, "a", 0.2]}, r"numbers of shape \(3,\), got \[0.1, 'a', 0.2\]"),
            ({"initial_ratio": None}, r"class, mean, min, max or numbers of shape \(3,\), got None"),
            ({"adapt": None}, "adapt .* None: choose from divergence, prevalence, or pass a function"),
            ({"adapt": ["rate"]}, r"adapt .* \['rate'\]"),
            ({"reduction": None}, "reduction .* None: did you mean 'none'"),
            ({"rate": -0.1}, "rate must be 0 or more and finite, got -0.1"),
            ({"rate": float("nan")}, "rate must be 0 or more and finite, got nan"),
            ({"rate": float("inf")}, "rate must be 0 or more and finite, got inf"),
            ({"rate": "fast"}, "rate must be 0 or more and finite, got 'fast'"),
            ({"rate": [0.1]}, r"rate must be 0 or more and finite, got \[0.1\]"),
            ({"num_bins": 1}, "num_bins must be a whole number of 2 or more, .* got 1"),
            ({"num_bins": 10.0}, r"num_bins must be a whole number of 2 or more, .* got 10\.0"),
            ({"num_bins": "10"}, "num_bins must be a whole number of 2 or more, .* got '10'"),
            ({"num_bins": 5, "adapt": "prevalence"}, "even for adapt"),
            ({"ratio_range": (1.0, 0.5)}, r"\(low, high\) with 0 <= low < high, got \(1\.0, 0\.5\)"),
            ({"ratio_range": (-1.0, 1.0)}, r"0 <= low < high, got \(-1\.0, 1\.0\)"),
            ({"ratio_range": (float("nan"), 1.0)}, "0 <= low < high, got .nan, 1.0"),
            ({"ratio_range": 1.0}, r"ratio_range must be \(low, high\) with 0 <= low < high, got 1\.0"),
            ({"ratio_range": (0, 1, 2)}, r"0 <= low < high, got \(0, 1, 2\)"),
            ({"ratio_range": "01"}, "0 <= low < high, got '01'"),
            ({"ratio_range": (0, None)}, r"0 <= low < high, got \(0, None\)"),
            ({"warmup": -3}, "warmup must be a whole number of 0 or more, got -3"),
            ({"warmup": 2.5}, "warmup must be a whole number of 0 or more, got 2.5"),
            ({"warmup": "2"}, "warmup must be a whole number of 0 or more, got '2'"),
            ({"hold": 0}, "hold must be a share of training below 1, or a whole number of epochs, got 0"),
            ({"hold": 2.5}, "hold must be a share of training below 1, or a whole number of .* got 2.5"),
            ({"hold": "end"}, "hold must be a share .* got 'end'"),
            ({"hold": 0.8}, "hold=0.8 is a share of training: pass epochs, or a whole number as hold"),
            ({"epochs": 0}, "epochs must be a whole number of 1 or more, got 0"),
            ({"epochs": 7.5}, "epochs must be a whole number of 1 or more, got 7.5"),
            ({"classes": "abc"}, "classes must be a list of 3 names, got 'abc'"),
            ({"classes": 3}, "classes must be a list of 3 names, got 3"),
            ({"classes": ["a", "b"]}, "classes must name 3 classes, got 2 names"),
        ],
    )
    def test_options(self, options, message):
        with pytest.raises(ValueError, match=message):
            PartialLabelMasking.from_targets(TARGETS, **options)

    @pytest.mark.parametrize(
        ("positives", "negatives", "message"),
        [
            ([1, 2], [3], r"shape \(C,\), got \(2,\) and \(1,\)"),
            ([-1, 2], [3, 4], "class counts must be whole numbers of 0 or more, got -1"),
            (
                [0.1, 0.2],
                [0.9, 0.8],
                r"whole numbers of 0 or more, got 0\.9, 0\.8, 0\.1, 0\.2: multiply shares",
            ),
            ([1.0, torch.nan], [3, 4], "whole numbers of 0 or more, got nan"),
            ([1.0, torch.inf], [3, 4], "whole numbers of 0 or more, got inf"),
            (3, 4, r"shape \(C,\)"),
            (
                ["a", "b"],
                [1, 2],
                "positives must be numbers, got an array of <U1: give the number of samples",
            ),
            ([1, 2], [[1], [1, 2]], "negatives must be numbers, got rows of different lengths"),
        ],
    )
    def test_counts(self, positives, negatives, message):
        with pytest.raises(ValueError, match=message):
            PartialLabelMasking.from_counts(positives, negatives)

    def test_counts_are_checked_wherever_they_come_in(self, criterion):
        with pytest.raises(ValueError, match="whole numbers of 0 or more, got -2"):
            PartialLabelMasking(torch.tensor([[3, -2], [1, 2]]))
        with pytest.raises(ValueError, match=r"whole numbers of 0 or more, got 0\.5"):
            criterion.set_class_counts([1, 1, 0.5], [3, 3, 3])

    def test_options_of_numpy_and_lists_are_taken(self):
        criterion = PartialLabelMasking.from_targets(
            TARGETS,
            rate=np.float32(0.5),
            num_bins=np.int64(4),
            ratio_range=[0, np.float64(1)],
            warmup=np.int32(2),
            classes=np.array(["a", "b", "c"]),
        )
        assert (criterion.rate, criterion.num_bins, criterion.warmup) == (0.5, 4, 2)
        assert criterion.options.ratio_range == (0.0, 1.0)
        assert criterion.options.classes == ("a", "b", "c")

    def test_long_lists_of_classes_are_cut(self):
        with pytest.warns(UserWarning, match=r"class 0, 1, 2, 3, 4 and 995 more"):
            PartialLabelMasking.from_counts(torch.zeros(1000), torch.ones(1000))


def test_labels_of_a_single_class_need_the_class_axis():
    criterion = PartialLabelMasking.from_counts([5], [95], adapt="prevalence")
    logits, labels = torch.zeros(100, 1), torch.tensor([0] * 95 + [1] * 5)
    for mode in (criterion.train(), criterion.eval()):
        with pytest.raises(ValueError, match=r"the logits' shape \(100, 1\), got \(100,\)"):
            mode(logits, labels)
    criterion(logits, labels.unsqueeze(1))


@pytest.mark.parametrize("ratios", [np.array([3.0, 2.0, 1.0])[::-1], np.array([1.0, 2.0, 3.0], dtype=">f8")])
def test_initial_ratios_in_any_array(ratios):
    criterion = PartialLabelMasking.from_targets(TARGETS, initial_ratio=ratios)
    assert criterion.target_ratio.tolist() == [1.0, 2.0, 3.0]
