"""Binary cross-entropy and the focal loss, against torch and values worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tailmask.losses import BinaryCrossEntropy, FocalLoss, focal_loss


def logits_and_targets(num_samples: int = 50, num_classes: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(num_samples, num_classes, generator=generator)
    return logits, torch.randint(2, (num_samples, num_classes), generator=generator).float()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_is_torchs_to_the_last_bit(reduction: str, weighted: bool) -> None:
    logits, targets = logits_and_targets()
    logits.requires_grad_()
    weight = torch.rand(7) if weighted else None
    ours = BinaryCrossEntropy(weight=weight, reduction=reduction)(logits, targets)
    theirs = nn.BCEWithLogitsLoss(weight=weight, reduction=reduction)(logits, targets)
    assert torch.equal(ours, theirs)
    gradients = [torch.autograd.grad(loss.sum(), logits)[0] for loss in (ours, theirs)]
    assert torch.allclose(*gradients, rtol=1e-6, atol=0)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_weighted_positives_are_torchs_to_the_last_bit(reduction: str, weighted: bool) -> None:
    logits, targets = logits_and_targets()
    logits.requires_grad_()
    weight = torch.rand(7) if weighted else None
    pos_weight = torch.tensor([0.0, 0.1, 1.0, 2.0, 30.0, 400.0, 5000.0])
    ours = BinaryCrossEntropy(pos_weight=pos_weight, weight=weight, reduction=reduction)
    theirs = nn.BCEWithLogitsLoss(pos_weight=pos_weight, weight=weight, reduction=reduction)
    for labels in (targets, torch.rand_like(targets)):
        losses = ours(logits, labels), theirs(logits, labels)
        assert torch.equal(*losses)
        gradients = [torch.autograd.grad(loss.sum(), logits)[0] for loss in losses]
        assert torch.allclose(*gradients, rtol=1e-6, atol=0)


def test_weighted_positives_lift_the_best_logit_by_the_weights_logarithm() -> None:
    # Of 100 labels 20 are positive: the best logit is log(20 / 80), and with a weight of 4 it is 0.
    targets = (torch.arange(100) < 20).double().unsqueeze(1)
    for pos_weight, best in ((1.0, -1.3862943611), (4.0, 0.0)):
        logits = torch.full((100, 1), best, dtype=torch.float64, requires_grad=True)
        BinaryCrossEntropy(pos_weight=[pos_weight])(logits, targets).backward()
        assert logits.grad.sum().item() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("pos_weight", [[-1.0, 1.0], [torch.inf, 1.0], 2.0])
def test_weights_of_positives_out_of_range(pos_weight: object) -> None:
    with pytest.raises(ValueError, match="pos_weight must"):
        BinaryCrossEntropy(pos_weight=pos_weight)


def test_weights_of_positives_of_another_number_of_classes() -> None:
    with pytest.raises(ValueError, match=r"pos_weight .* 3 classes .* got 2"):
        BinaryCrossEntropy(pos_weight=[0.5, 0.5])(torch.zeros(1, 3), torch.zeros(1, 3))


def test_cross_entropy_takes_soft_targets() -> None:
    logits, _ = logits_and_targets()
    targets = torch.rand_like(logits)
    assert torch.equal(BinaryCrossEntropy()(logits, targets), nn.BCEWithLogitsLoss()(logits, targets))


def test_focal_loss_by_hand() -> None:
    # (1 − p_t)^γ · −log p_t with p = sigmoid(logit), p_t = p for a positive and 1 − p for a negative
    logits = torch.tensor([[2.0, -1.0, 0.5, -3.0]], dtype=torch.float64)
    targets = torch.tensor([[1.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    focus_2 = torch.tensor([[0.0018035628, 0.7018683034, 0.3774116009, 0.0001092833]], dtype=torch.float64)
    focus_half = torch.tensor([[0.0438228810, 1.1228645306, 0.7685086723, 0.0105811018]], dtype=torch.float64)
    assert torch.allclose(focal_loss(logits, targets), focus_2, rtol=0, atol=1e-10)
    assert torch.allclose(focal_loss(logits, targets, 0.5), focus_half, rtol=0, atol=1e-10)


def test_focal_alpha_by_hand() -> None:
    logits, targets = torch.tensor([[2.0, -1.0, 0.5]]), torch.tensor([[1.0, 1.0, 0.0]])
    one = FocalLoss(alpha=0.25, reduction="none")(logits, targets)
    assert one[0].tolist() == pytest.approx([0.25 * 0.0018035628, 0.25 * 0.7018683034, 0.75 * 0.3774116009])
    per_class = FocalLoss(alpha=[0.1, 0.2, 0.9], reduction="none")(logits, targets)
    assert per_class[0].tolist() == pytest.approx(
        [0.1 * 0.0018035628, 0.2 * 0.7018683034, 0.1 * 0.3774116009]
    )


def test_focal_loss_without_focus_is_cross_entropy() -> None:
    logits, targets = logits_and_targets()
    for soft in (targets, torch.rand_like(targets)):
        assert FocalLoss(0.0)(logits, soft).item() == pytest.approx(BinaryCrossEntropy()(logits, soft).item())


def test_focal_gradient_is_finite_where_the_label_is_certain_and_the_focus_below_one() -> None:
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    focal_loss(logits, torch.tensor([[1.0, 0.0]]), 0.5).sum().backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("options", [{"gamma": -1.0}, {"alpha": 1.5}, {"alpha": [[0.5]]}])
def test_focal_options_out_of_range(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must"):
        FocalLoss(**options)


def test_alpha_of_another_number_of_classes() -> None:
    with pytest.raises(ValueError, match=r"alpha .* 3 classes .* got 2"):
        FocalLoss(alpha=[0.5, 0.5])(torch.zeros(1, 3), torch.zeros(1, 3))
