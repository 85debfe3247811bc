"""The asymmetric loss, against values worked out by hand from its definition."""

from __future__ import annotations

import pytest
import torch

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


def test_detached_focus_leaves_the_loss_and_changes_the_gradient() -> None:
    logits = torch.tensor([[0.5, 2.0]], dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    options = {"gamma_neg": 4.0, "gamma_pos": 1.0, "clip": 0.05}
    attached = asymmetric_loss(logits, targets, **options)
    detached = asymmetric_loss(logits, targets, detach_focus=True, **options)
    assert torch.equal(attached, detached)
    (gradient,) = torch.autograd.grad(detached.sum(), logits)
    p = logits.detach().sigmoid()[0]
    # the focus as a constant times d(−log(1 − p_m))/dz = p (1 − p) / (1 − p_m), and d(−log p)/dz = −(1 − p)
    shifted = p[0] - 0.05
    assert gradient[0, 0].item() == pytest.approx((shifted**4 * p[0] * (1 - p[0]) / (1 - shifted)).item())
    assert gradient[0, 1].item() == pytest.approx((-((1 - p[1]) ** 2)).item())
    assert not torch.allclose(torch.autograd.grad(attached.sum(), logits)[0], gradient)


def test_a_hopeless_positive_still_has_a_gradient() -> None:
    logits = torch.tensor([[-50.0]], requires_grad=True)
    AsymmetricLoss()(logits, torch.ones(1, 1)).backward()
    assert logits.grad is not None
    assert logits.grad.item() == pytest.approx(-1.0)


def test_gradient_up_to_the_margin_is_zero_also_for_a_small_focus() -> None:
    logits = torch.tensor([[0.0, -4.0, -1e4]], requires_grad=True)
    AsymmetricLoss(gamma_neg=0.5, clip=0.5)(logits, torch.zeros(1, 3)).backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("options", [{"gamma_neg": -1.0}, {"gamma_pos": -1.0}, {"clip": 1.0}, {"clip": -0.1}])
def test_options_out_of_range(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        AsymmetricLoss(**options)


def test_a_margin_lost_in_rounding_leaves_the_loss_finite() -> None:
    logits = torch.tensor([[20.0, 20.0]], requires_grad=True)
    loss = asymmetric_loss(logits, torch.tensor([[0.0, 1.0]]), clip=1e-9).sum()
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert 10 < loss.item() < torch.inf
