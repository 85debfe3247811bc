"""The asymmetric loss, against values worked out by hand from its definition."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tailmask.losses import AsymmetricLoss, BinaryCrossEntropy, FocalLoss, asymmetric_loss

LOGITS = torch.tensor([[2.0, -1.0, 0.5, -2.5, -4.0]], dtype=torch.float64)
TARGETS = torch.tensor([[1.0, 1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)


def test_by_hand() -> None:
    # positives −log p; negatives p_m⁴ · −log(1 − p_m) with p_m = max(p − 0.05, 0), p = 0.6225, 0.0759, 0.0180
    losses = asymmetric_loss(LOGITS, TARGETS)[0].tolist()
    assert losses == pytest.approx([0.1269280110, 1.3132616875, 0.0912530041, 0.0000000117, 0.0], abs=1e-10)
    assert losses[4] == 0  # its probability is under the margin


def test_positive_focus_by_hand() -> None:
    losses = asymmetric_loss(LOGITS, TARGETS, gamma_pos=1.0)  # (1 − p) · −log p
    assert losses[0, :2].tolist() == pytest.approx([0.0151301898, 0.9600712226])


def test_without_margin_by_hand() -> None:
    losses = asymmetric_loss(LOGITS, TARGETS, clip=0.0)  # p⁴ · −log(1 − p)
    assert losses[0, 2:].tolist() == pytest.approx([0.1462302454, 0.0000026123, 0.0000000019], abs=1e-10)


def test_it_holds_the_other_losses() -> None:
    logits = LOGITS.float()
    cross_entropy = AsymmetricLoss(gamma_neg=0.0, gamma_pos=0.0, clip=0.0)(logits, TARGETS)
    assert cross_entropy.item() == pytest.approx(BinaryCrossEntropy()(logits, TARGETS).item())
    focal = AsymmetricLoss(gamma_neg=2.0, gamma_pos=2.0, clip=0.0)(logits, TARGETS)
    assert focal.item() == pytest.approx(FocalLoss(2.0)(logits, TARGETS).item())


def by_the_chain_rule(logits: Tensor, targets: Tensor, *, detach: bool) -> Tensor:
    """The gradient with γ⁻ = 4, γ⁺ = 1 and a margin of 0.05, worked out on paper: no autograd."""
    p = logits.sigmoid()
    slope = p * (1 - p)  # dp/dz
    shifted = (p - 0.05).clamp(min=0)  # p_m
    above = (p > 0.05).double()  # dp_m/dp
    positive = -(1 - p) * slope / p
    negative = shifted**4 * slope * above / (1 - shifted)
    if not detach:  # the gradient of the weight, times the cross-entropy
        positive = positive + slope * p.log()
        negative = negative - 4 * shifted**3 * slope * above * (1 - shifted).log()
    return torch.where(targets == 1, positive, negative)


@pytest.mark.parametrize("detach", [True, False])
def test_gradient_with_and_without_that_of_the_focusing_weight(detach: bool) -> None:
    logits = torch.linspace(-5, 5, 24, dtype=torch.float64).reshape(4, 6).requires_grad_()
    targets = torch.randint(2, (4, 6), generator=torch.Generator().manual_seed(0)).double()
    losses = asymmetric_loss(logits, targets, gamma_pos=1.0, detach=detach)
    assert torch.equal(losses, asymmetric_loss(logits, targets, gamma_pos=1.0, detach=not detach))
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    torch.testing.assert_close(gradient, by_the_chain_rule(logits.detach(), targets, detach=detach))


def test_the_focusing_weight_is_detached_by_default_as_the_authors_train() -> None:
    logits = LOGITS.clone().requires_grad_()
    for loss, name in ((AsymmetricLoss(reduction="sum"), "class"), (asymmetric_loss, "function")):
        (gradient,) = torch.autograd.grad(loss(logits, TARGETS).sum(), logits)
        detached = asymmetric_loss(logits, TARGETS, detach=True).sum()
        attached = asymmetric_loss(logits, TARGETS, detach=False).sum()
        assert torch.equal(gradient, torch.autograd.grad(detached, logits)[0]), name
        assert not torch.equal(gradient, torch.autograd.grad(attached, logits)[0]), name


def test_a_hopeless_positive_still_has_a_gradient() -> None:
    logits = torch.tensor([[-50.0]], requires_grad=True)
    AsymmetricLoss()(logits, torch.ones(1, 1)).backward()
    assert logits.grad is not None
    assert logits.grad.item() == pytest.approx(-1.0)


def test_gradient_up_to_the_margin_is_zero_also_for_a_small_focus() -> None:
    logits = torch.tensor([[0.0, -4.0, -1e4]], requires_grad=True)
    AsymmetricLoss(gamma_neg=0.5, clip=0.5, detach=False)(logits, torch.zeros(1, 3)).backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("options", [{"gamma_neg": -1.0}, {"gamma_pos": -1.0}, {"clip": 1.0}, {"clip": -0.1}])
def test_options_out_of_range(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        AsymmetricLoss(**options)


def test_a_margin_lost_in_rounding_leaves_the_loss_finite() -> None:
    logits = torch.tensor([[20.0, 20.0]], requires_grad=True)
    loss = asymmetric_loss(logits, torch.tensor([[0.0, 1.0]]), clip=1e-9, detach=False).sum()
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert 10 < loss.item() < torch.inf
