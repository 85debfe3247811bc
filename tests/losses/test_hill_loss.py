"""The Hill loss, against values and gradients worked out by hand from its definition."""

from __future__ import annotations

import pytest
import torch

from tailmask.losses import FocalLoss, HillLoss

LOGITS = torch.tensor([[2.0, -1.0, 0.5, -2.5, 4.0]], dtype=torch.float64)
TARGETS = torch.tensor([[1.0, 1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)


def test_by_hand() -> None:
    # positives (1 − p_m)² · −log p_m with p_m = sigmoid(logit − 1) = 0.7311, 0.1192
    # negatives (1.5 − p) · p² with p = sigmoid(logit) = 0.6225, 0.0759, 0.9820
    losses = HillLoss(reduction="none")(LOGITS, TARGETS)[0].tolist()
    assert losses == pytest.approx([0.0226580575, 1.6500781794, 0.3400080630, 0.0081951721, 0.4995205630])


def test_focus_and_margin_by_hand() -> None:
    losses = HillLoss(gamma=1.0, margin=0.5, reduction="none")(LOGITS, TARGETS)[0].tolist()
    # positives (1 − p_m) · −log p_m with p_m = sigmoid(logit − 0.5); negatives as they were
    assert losses == pytest.approx([0.0367429227, 1.3910320695, 0.3400080630, 0.0081951721, 0.4995205630])


def test_positives_without_margin_have_the_focal_loss() -> None:
    logits, ones = LOGITS.float(), torch.ones(1, 5)
    assert torch.equal(HillLoss(margin=0.0)(logits, ones), FocalLoss(2.0)(logits, ones))


def test_the_pull_on_a_negative_is_a_hill_around_one_half() -> None:
    p = torch.tensor([[0.01, 0.3, 0.5, 0.7, 0.99]], dtype=torch.float64)
    logits = p.logit().requires_grad_()
    HillLoss(reduction="sum")(logits, torch.zeros_like(p)).backward()
    assert logits.grad is not None
    assert logits.grad[0].tolist() == pytest.approx([0.00029403, 0.1323, 0.1875, 0.1323, 0.00029403])


def test_soft_targets_mix_both() -> None:
    loss = HillLoss(reduction="none")
    positive, negative = loss(LOGITS, torch.ones(1, 5)), loss(LOGITS, torch.zeros(1, 5))
    assert torch.allclose(loss(LOGITS, torch.full((1, 5), 0.25)), 0.25 * positive + 0.75 * negative)


def test_a_focus_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="gamma must be 0 or more, got -1"):
        HillLoss(gamma=-1.0)
