"""LDAM, against values worked out by hand and torch's own cross-entropy."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tailmask.losses import LDAMLoss, ldam_margins

POSITIVES = [16, 81, 1]
LOGITS = torch.tensor([[0.3, 0.1, -0.2], [0.2, 0.5, 0.4]], dtype=torch.float64)
CLASSES = torch.tensor([0, 2])
# margins ½ · (1 / n)^¼ = 1/4, 1/6, 1/2; log Σ exp(30 (z − margin of the label)) − 30 (z_y − margin)
BY_HAND = [1.7015141696, 18.0001234174]


def test_margins_by_hand() -> None:
    assert ldam_margins(torch.tensor(POSITIVES)).tolist() == pytest.approx([1 / 4, 1 / 6, 1 / 2])
    # rarer than 81 by a quarter of powers, not by the number itself
    assert ldam_margins(torch.tensor([256.0, 81.0]), 0.4).tolist() == pytest.approx([0.3, 0.4])


def test_by_hand() -> None:
    losses = LDAMLoss(POSITIVES, reduction="none")(LOGITS, CLASSES)
    assert losses.tolist() == pytest.approx(BY_HAND, abs=1e-5)  # margins are float32
    assert LDAMLoss(POSITIVES)(LOGITS, CLASSES).item() == pytest.approx(sum(BY_HAND) / 2)


def test_mean_is_weighted_as_published() -> None:
    loss = LDAMLoss(POSITIVES, weight=[0.5, 1.0, 2.0])
    expected = (0.5 * BY_HAND[0] + 2.0 * BY_HAND[1]) / 2.5
    assert loss(LOGITS, CLASSES).item() == pytest.approx(expected)
    total = 0.5 * BY_HAND[0] + 2.0 * BY_HAND[1]
    for reduction, number in (("sum", 1), ("batchmean", 2)):
        loss.reduction = reduction
        assert loss(LOGITS, CLASSES).item() == pytest.approx(total / number)


@pytest.mark.parametrize("weight", [None, [0.5, 1.0, 2.0]])
def test_parts_of_a_batch_make_up_the_whole_by_their_weights(weight: list[float] | None) -> None:
    loss = LDAMLoss(POSITIVES, weight=weight)
    logits, classes = torch.randn(6, 3), torch.tensor([0, 2, -1, 1, 1, -1])
    parts = [(logits[rows], classes[rows]) for rows in ([0, 1], [2, 3, 4], [5])]
    weights = torch.stack([loss.total_weight(targets) for _, targets in parts])
    assert weights[-1] == 0
    torch.testing.assert_close(weights.sum(), loss.total_weight(classes))
    mean = weights @ torch.stack([loss(*part) for part in parts]) / weights.sum()
    torch.testing.assert_close(mean, loss(logits, classes))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_without_margin_it_is_torchs_cross_entropy(reduction: str, weighted: bool) -> None:
    logits, classes = torch.randn(40, 3, requires_grad=True), torch.randint(3, (40,))
    weight = torch.rand(3) if weighted else None
    ours = LDAMLoss(POSITIVES, max_margin=0.0, scale=1.0, weight=weight, reduction=reduction)(logits, classes)
    theirs = nn.CrossEntropyLoss(weight=weight, reduction=reduction)(logits, classes)
    assert torch.allclose(ours, theirs, rtol=1e-6)
    gradients = [torch.autograd.grad(loss.sum(), logits)[0] for loss in (ours, theirs)]
    assert torch.allclose(*gradients, atol=1e-7)


def test_one_hot_rows_are_the_same_as_indices() -> None:
    loss = LDAMLoss(POSITIVES, weight=[0.5, 1.0, 2.0])
    for dtype in (torch.float32, torch.int8, torch.int64):
        rows = nn.functional.one_hot(CLASSES, 3).to(dtype)
        assert torch.equal(loss(LOGITS, rows), loss(LOGITS, CLASSES))


def test_unknown_samples_have_no_loss_and_no_gradient() -> None:
    loss = LDAMLoss(POSITIVES)
    logits = torch.cat([LOGITS, torch.full((1, 3), torch.nan).double()]).requires_grad_()
    for unknown in (torch.tensor([0, 2, -1]), torch.tensor([[1.0, 0, 0], [0, 0, 1], [torch.nan] * 3])):
        value = loss(logits, unknown)
        assert value.item() == pytest.approx(sum(BY_HAND) / 2)
        (gradient,) = torch.autograd.grad(value, logits)
        assert gradient[2].tolist() == [0, 0, 0]
        assert gradient[:2].isfinite().all()
    assert loss(torch.zeros(2, 3), torch.tensor([-1, -1])).item() == 0


def test_a_class_without_samples_has_a_finite_margin() -> None:
    loss = LDAMLoss([16, 0, 1])
    assert loss.margins.tolist() == pytest.approx([0.25, 0.5, 0.5])
    with pytest.raises(ValueError, match="at least one class"):
        LDAMLoss([0, 0])


def test_bad_input() -> None:
    loss = LDAMLoss(POSITIVES)
    with pytest.raises(ValueError, match="exactly one label per sample"):
        loss(torch.zeros(1, 3), torch.tensor([[1.0, 1.0, 0.0]]))
    with pytest.raises(ValueError, match="soft ones"):
        loss(torch.zeros(1, 3), torch.tensor([[0.7, 0.3, 0.0]]))
    with pytest.raises(ValueError, match="from 0 to 2, or -1 if unknown, got 3 to 3"):
        loss(torch.zeros(1, 3), torch.tensor([3]))
    with pytest.raises(ValueError, match=r"logits must have shape \(N, 3\)"):
        loss(torch.zeros(1, 4), torch.tensor([0]))
    with pytest.raises(ValueError, match="targets must have shape"):
        loss(torch.zeros(2, 3), torch.zeros(2, 4))
    with pytest.raises(ValueError, match="scale"):
        LDAMLoss(POSITIVES, scale=0.0)
