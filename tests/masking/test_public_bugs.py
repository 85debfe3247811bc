"""One test for each mistake that public attempts at PLM make: it fails for whoever has it."""

from __future__ import annotations

import copy

import pytest
import torch

from tailmask import PartialLabelMasking, functional


@pytest.fixture
def setting():
    torch.manual_seed(2)
    targets = (torch.rand(400, 3) < torch.tensor([0.7, 0.3, 0.05])).float()
    logits = torch.randn(400, 3) * 2
    return logits.requires_grad_(), targets


def test_mask_is_not_multiplied_onto_a_reduced_loss(setting):
    logits, targets = setting
    criterion = PartialLabelMasking.from_targets(targets, initial_ratio="mean", reduction="none")
    losses = criterion(logits, targets)
    plain = torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    # Each label is either whole or gone; a masked scalar would change all of them by one factor.
    assert ((losses == 0) | (losses == plain)).all()
    assert 0 < (losses == 0).float().mean() < 1


def test_histograms_of_the_labels_are_not_added_crosswise(setting):
    logits, targets = setting
    criterion = PartialLabelMasking.from_targets(targets)
    criterion(logits, targets)
    assert torch.equal(criterion.counts[1].sum(dim=-1), targets.sum(dim=0).long())
    assert torch.equal(criterion.counts[0].sum(dim=-1), (1 - targets).sum(dim=0).long())


def test_mask_depends_on_the_label(setting):
    logits, targets = setting
    criterion = PartialLabelMasking.from_targets(targets, initial_ratio="mean", reduction="none")
    kept = criterion(logits, targets) != 0
    head, tail = 0, 2
    assert kept[targets[:, head] == 0, head].all()
    assert not kept[targets[:, head] == 1, head].all()
    assert kept[targets[:, tail] == 1, tail].all()
    assert not kept[targets[:, tail] == 0, tail].all()


def test_outputs_are_split_by_label_not_by_prediction():
    targets = torch.tensor([[1.0], [0.0]])
    counts = functional.histogram(torch.tensor([[0.05], [0.95]]), targets, 2)  # both are wrong
    assert counts.tolist() == [[[0, 1]], [[1, 0]]]


def test_probabilities_are_binned_not_logits():
    targets = torch.tensor([[1.0], [0.0]] * 3)
    criterion = PartialLabelMasking.from_targets(targets, num_bins=4)
    criterion(torch.tensor([[-3.0], [3.0]] * 3, requires_grad=True), targets)
    assert criterion.counts.tolist() == [[[0, 0, 0, 3]], [[3, 0, 0, 0]]]


def test_each_class_has_its_own_divergence(setting):
    logits, targets = setting
    criterion = PartialLabelMasking.from_targets(targets, rate=0.1)
    criterion(logits, targets)
    moved = criterion.step().target_ratio / criterion.class_ratio
    assert len(moved.unique()) == 3


def test_divergences_are_z_scored(setting):
    logits, targets = setting
    criterion = PartialLabelMasking.from_targets(targets)
    criterion(logits, targets)
    gap = criterion.step().gap
    # Gaps of z-scores sum to zero: some ratios rise and others fall. Without them all would move one way.
    assert gap.sum().abs() < 1e-4
    assert gap.min() < 0 < gap.max()


def test_divergence_is_taken_from_predicted_to_true():
    counts = torch.tensor([[[50, 50]], [[90, 10]]])
    negative, positive = functional.divergence(counts)[:, 0]
    assert positive > negative  # KL(P ‖ P̂), the reverse, is −log 0.1 and −log 0.5: also ordered, but small
    assert negative > 7


def test_statistics_survive_a_checkpoint(setting):
    logits, targets = setting
    criterion = PartialLabelMasking.from_targets(targets, rate=0.1)
    criterion(logits, targets)
    resumed = PartialLabelMasking.from_targets(targets, rate=0.1)
    resumed.load_state_dict(copy.deepcopy(criterion.state_dict()))
    assert torch.equal(resumed.step().target_ratio, criterion.step().target_ratio)


def test_a_class_without_positives_does_not_spread_nan(setting):
    logits, targets = setting
    targets[:, 1] = 0
    with pytest.warns(UserWarning, match="no positives"):
        criterion = PartialLabelMasking.from_targets(targets, rate=0.1)
    criterion(logits, targets)
    ratio = criterion.step().target_ratio
    assert ratio.isfinite().all()
    assert (ratio != criterion.class_ratio)[[0, 2]].all()


def test_ratio_is_to_the_negatives_not_to_all(setting):
    _, targets = setting
    ratio = PartialLabelMasking.from_targets(targets).class_ratio
    torch.testing.assert_close(ratio, targets.sum(dim=0) / (1 - targets).sum(dim=0))
