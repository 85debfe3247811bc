"""The Poly-1 loss against the polynomial that the publication defines it by."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tailmask.losses import FocalLoss, Poly1Loss

PROBABILITIES = torch.tensor([[0.1, 0.3, 0.5, 0.8, 0.95]], dtype=torch.float64)
LOGITS = PROBABILITIES.logit()
POSITIVE, NEGATIVE = torch.ones_like(LOGITS), torch.zeros_like(LOGITS)


@pytest.mark.parametrize("epsilon", [-1.0, -0.4, 0.0, 2.0])
@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.0])
def test_it_is_the_series_with_another_first_coefficient(epsilon: float, gamma: float) -> None:
    distance = 1 - PROBABILITIES  # 1 − p_t of a positive
    series = sum(
        ((1 + epsilon) if j == 1 else 1 / j) * distance ** (j + gamma)
        for j in range(1, 2000)  # 0.9^2000 is nothing
    )
    loss = Poly1Loss(epsilon=epsilon, gamma=gamma, reduction="none")
    torch.testing.assert_close(loss(LOGITS, POSITIVE), series)
    torch.testing.assert_close(loss(-LOGITS, NEGATIVE), series)


def test_values_by_hand() -> None:
    losses = Poly1Loss(epsilon=2.0, reduction="none")(LOGITS, POSITIVE)
    assert losses[0, 2].item() == pytest.approx(0.693147 + 2 * 0.5, abs=1e-6)
    assert losses[0, 3].item() == pytest.approx(0.223144 + 2 * 0.2, abs=1e-6)


def test_without_epsilon_it_is_cross_entropy_and_the_focal_loss() -> None:
    expected = F.binary_cross_entropy_with_logits(LOGITS, NEGATIVE)
    torch.testing.assert_close(Poly1Loss(epsilon=0.0)(LOGITS, NEGATIVE), expected)
    focal = FocalLoss(gamma=2.0)(LOGITS, NEGATIVE)
    torch.testing.assert_close(Poly1Loss(epsilon=0.0, gamma=2.0)(LOGITS, NEGATIVE), focal)


def test_soft_targets_mix_both() -> None:
    loss = Poly1Loss(reduction="none")
    mixed = 0.25 * loss(LOGITS, POSITIVE) + 0.75 * loss(LOGITS, NEGATIVE)
    torch.testing.assert_close(loss(LOGITS, torch.full_like(LOGITS, 0.25)), mixed)


def test_a_first_coefficient_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"epsilon must be -1 or more, got -1\.5"):
        Poly1Loss(epsilon=-1.5)
