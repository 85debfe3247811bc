"""The distribution-balanced loss, against values worked out by hand from the paper and its configurations."""

from __future__ import annotations

import pytest
import torch

from tailmask.losses import DistributionBalancedLoss, FocalLoss, rebalanced_weights

POSITIVES, NEGATIVES = [400, 100, 10], [600, 900, 990]
LOGITS = torch.tensor([[1.0, 0.5, -1.0]], dtype=torch.float64)
TARGETS = torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)


def test_weights_by_hand() -> None:
    # r = (1 / n_c) / (1 / 400 + 1 / 10) = 0.0243902439, 0.0975609756, 0.9756097561; r̂ = 0.1 + σ(10 (r − 0.2))
    weights = rebalanced_weights(TARGETS, torch.tensor(POSITIVES).double())
    assert weights[0].tolist() == pytest.approx([0.2472797667, 0.3641731169, 1.0995720592], abs=1e-10)


def test_published_configuration_of_coco_by_hand() -> None:
    # bias = 0.05 / 2 · log(n⁺ / n⁻) = −0.0101366277, −0.0549306144, −0.1148779963
    # positives 2 · r̂ · (1 − p)² · −log p; negatives 2 · r̂ / 2 · p² · −log(1 − p) at twice the shifted logit
    losses = DistributionBalancedLoss(POSITIVES, NEGATIVES, reduction="none")(LOGITS, TARGETS)
    assert losses[0].tolist() == pytest.approx([0.0114721843, 0.2258759025, 1.7440340660], abs=1e-7)


def test_published_configuration_of_voc_by_hand() -> None:
    loss = DistributionBalancedLoss(POSITIVES, NEGATIVES, mu=0.3, neg_scale=5.0, reduction="none")
    losses = loss(LOGITS, TARGETS)
    assert losses[0].tolist() == pytest.approx([0.0073073466, 0.1802087309, 1.6211015572], abs=1e-7)


def test_each_part_can_be_left_out() -> None:
    # β = 0 makes all weights α + ½; λ = 1 and no bias leave the logits
    loss = DistributionBalancedLoss(
        POSITIVES, NEGATIVES, alpha=0.5, beta=0.0, neg_scale=1.0, init_bias=0.0, balance=1.0
    )
    assert loss(LOGITS, TARGETS).item() == pytest.approx(FocalLoss(2.0)(LOGITS, TARGETS).item())


def test_the_weight_depends_on_the_known_labels_of_the_row() -> None:
    loss = DistributionBalancedLoss(POSITIVES, NEGATIVES, reduction="none")
    logits = LOGITS.float().repeat(2, 1)
    targets = torch.tensor([[1.0, 0.0, torch.nan], [1.0, 0.0, 0.0]])
    losses = loss(logits, targets)
    assert torch.equal(losses[0, :2], losses[1, :2])
    assert losses[0, 2] == 0


def test_a_sample_without_labels_has_finite_losses() -> None:
    weights = rebalanced_weights(torch.zeros(1, 3), torch.tensor(POSITIVES).float())
    assert weights[0].tolist() == pytest.approx([1.1, 1.1, 1.1])


def test_classes_without_positives_or_negatives_count_as_having_one() -> None:
    empty = DistributionBalancedLoss([400, 0, 1000], [600, 1000, 0])
    one = DistributionBalancedLoss([400, 1, 1000], [600, 1000, 1])
    logits = LOGITS.float().requires_grad_()
    loss = empty(logits, TARGETS)
    assert torch.equal(loss, one(logits, TARGETS))
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="classes, got 3 and 2"):
        DistributionBalancedLoss(POSITIVES, NEGATIVES[:2])
    with pytest.raises(ValueError, match="finite numbers of 0 or more, got -1"):
        DistributionBalancedLoss([-1, 2], [3, 4])
    with pytest.raises(ValueError, match="neg_scale"):
        DistributionBalancedLoss(POSITIVES, NEGATIVES, neg_scale=0.0)
    with pytest.raises(ValueError, match="another data set"):
        DistributionBalancedLoss(POSITIVES, NEGATIVES)(torch.zeros(1, 2), torch.zeros(1, 2))


def test_without_a_slope_all_labels_weigh_the_same() -> None:
    targets = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert (
        rebalanced_weights(targets, torch.tensor([3.0, 1.0]), beta=0.0).tolist()
        == [[pytest.approx(0.6)] * 2] * 2
    )
