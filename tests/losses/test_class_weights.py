"""Class-balanced weights, their single-label form, and their deferral."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tailmask import PartialLabelMasking
from tailmask.losses import (
    AsymmetricLoss,
    BinaryCrossEntropy,
    DeferredReweighting,
    FocalLoss,
    LDAMLoss,
    class_balanced_weights,
    positive_weights,
    sample_weights,
)


def test_weights_by_hand() -> None:
    # (1 − β) / (1 − βⁿ): 0.01 / 0.0956179250 and 0.01 / 0.6339676587, scaled to sum to 2
    assert class_balanced_weights([10, 100], 0.99).tolist() == pytest.approx([1.7378842808, 0.2621157192])
    expected = [0.0341073618, 0.2751672254, 2.6907254128]
    for counts in ([5000, 500, 50], np.array([5000, 500, 50]), torch.tensor([5000, 500, 50])):
        assert class_balanced_weights(counts).tolist() == pytest.approx(expected)


def test_limits_of_beta() -> None:
    assert class_balanced_weights([10, 1000, 7], 0.0).tolist() == [1, 1, 1]
    inverse = np.array([1 / 10, 1 / 1000, 1 / 7])
    nearly_inverse = class_balanced_weights([10, 1000, 7], 1 - 1e-9)
    assert nearly_inverse.tolist() == pytest.approx(3 * inverse / inverse.sum(), rel=1e-4)
    for beta in (1.0, -0.1):
        with pytest.raises(ValueError, match="beta"):
            class_balanced_weights([10], beta)


def test_a_class_without_positives_weighs_one_and_is_left_out_of_the_sum() -> None:
    weights = class_balanced_weights([5000, 0, 500, 50])
    assert weights.tolist() == pytest.approx([0.0341073618, 1.0, 0.2751672254, 2.6907254128])
    assert class_balanced_weights([0, 0]).tolist() == [1, 1]


def test_weights_of_positives_by_hand() -> None:
    positives, negatives = [25, 400, 0, 50, 0], [400, 25, 50, 0, 0]
    assert positive_weights(positives, negatives).tolist() == [16, 0.0625, 1, 1, 1]
    assert positive_weights(positives, negatives, power=0.5).tolist() == [4, 0.25, 1, 1, 1]
    assert positive_weights(positives, negatives, power=0.0).tolist() == [1, 1, 1, 1, 1]


def test_sample_weights() -> None:
    class_weights = torch.tensor([0.5, 1.0, 4.0])
    assert sample_weights(torch.tensor([2, 0, -1]), class_weights).tolist() == [4, 0.5, 1]
    rows = torch.tensor([[0.0, 0, 1], [0.25, 0.75, 0], [-1, torch.nan, 1], [0, 0, 0], [-1, -1, -1]])
    assert sample_weights(rows, class_weights).tolist() == [4, 0.875, 4, 1, 1]
    with pytest.raises(ValueError, match="another data set"):
        sample_weights(torch.zeros(2, 4), class_weights)


def test_sample_weights_are_not_rounded_by_autocast() -> None:
    rows, class_weights = torch.tensor([[0.0, 1.0]]), torch.tensor([0.0, 1.0001])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert sample_weights(rows, class_weights).tolist() == class_weights[1:].tolist()


def test_the_two_forms_of_class_weights() -> None:
    logits, weight = torch.zeros(2, 3), torch.tensor([0.5, 1.0, 4.0])
    targets = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    single = np.log(2)
    per_class = BinaryCrossEntropy(weight=weight, reduction="none")(logits, targets)
    assert per_class.numpy() == pytest.approx(single * np.array([[0.5, 1, 4], [0.5, 1, 4]]))
    per_sample = BinaryCrossEntropy(weight=weight, per_sample=True, reduction="none")(logits, targets)
    assert per_sample.numpy() == pytest.approx(single * np.array([[4, 4, 4], [0.5, 0.5, 0.5]]))


def test_prior_shift_holds_for_cross_entropy_with_constant_class_weights_only() -> None:
    assert BinaryCrossEntropy.supports_prior_shift
    assert BinaryCrossEntropy(weight=[1.0, 2.0]).supports_prior_shift
    assert not BinaryCrossEntropy(weight=[1.0, 2.0], per_sample=True).supports_prior_shift
    assert not BinaryCrossEntropy(pos_weight=[1.0, 2.0]).supports_prior_shift
    assert not FocalLoss.supports_prior_shift
    assert not AsymmetricLoss.supports_prior_shift
    assert DeferredReweighting(BinaryCrossEntropy(), [1.0], start_epoch=1).supports_prior_shift
    assert not DeferredReweighting(LDAMLoss([1, 2]), [1.0, 2.0], start_epoch=1).supports_prior_shift


@pytest.mark.parametrize("loss", [BinaryCrossEntropy, torch.nn.BCEWithLogitsLoss])
def test_a_prior_shift_with_weighted_positives_is_no_probability(loss: type[torch.nn.Module]) -> None:
    counts, pos_weight = torch.tensor([[8, 9], [2, 1]]), torch.tensor([4.0, 9.0])
    PartialLabelMasking(counts, loss=loss(reduction="none")).prior_shift()  # which does not warn
    weighted = PartialLabelMasking(counts, loss=loss(pos_weight=pos_weight, reduction="none"))
    with pytest.warns(UserWarning, match="not probabilities"):
        weighted.prior_shift()


@pytest.mark.parametrize("per_sample", [False, True])
def test_deferred_weights_begin_at_their_epoch(per_sample: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, weight = torch.randn(20, 3, generator=generator), class_balanced_weights([50, 30, 4])
    targets = torch.nn.functional.one_hot(torch.arange(20) % 3, 3).float()
    deferred = DeferredReweighting(FocalLoss(1.0, per_sample=per_sample), weight, start_epoch=3)
    plain = FocalLoss(1.0)(logits, targets)
    weighted = FocalLoss(1.0, weight=weight, per_sample=per_sample)(logits, targets)
    assert not torch.equal(plain, weighted)
    for epoch, expected in ((0, plain), (2, plain), (3, weighted), (4, weighted), (1, plain)):
        deferred.set_epoch(epoch)
        assert deferred.is_active == (epoch >= 3)
        assert torch.equal(deferred(logits, targets), expected)


def test_deferred_ldam() -> None:
    logits, classes, weight = torch.randn(20, 3), torch.arange(20) % 3, torch.tensor([0.2, 0.8, 2.0])
    deferred = DeferredReweighting(LDAMLoss([50, 30, 4]), weight, start_epoch=160)
    deferred.set_epoch(159)
    assert torch.equal(deferred(logits, classes), LDAMLoss([50, 30, 4])(logits, classes))
    deferred.set_epoch(160)
    assert torch.equal(deferred(logits, classes), LDAMLoss([50, 30, 4], weight=weight)(logits, classes))


@pytest.mark.parametrize("saved_epoch", [1, 5])
def test_deferral_is_part_of_the_state(saved_epoch: int) -> None:
    def build() -> DeferredReweighting:
        return DeferredReweighting(BinaryCrossEntropy(), [0.5, 1.5], start_epoch=3)

    saved = build()
    saved.set_epoch(saved_epoch)
    for epoch in (0, 7):  # from any earlier epoch of the loaded one
        loaded = build()
        loaded.set_epoch(epoch)
        loaded.load_state_dict(saved.state_dict())
        assert loaded.is_active == saved.is_active
        logits, targets = torch.randn(4, 2), torch.ones(4, 2)
        assert torch.equal(loaded(logits, targets), saved(logits, targets))
        loaded.set_epoch(3)
        assert loaded.loss.weight.tolist() == [0.5, 1.5]


def test_deferral_says_how_it_reduces_and_refuses_a_loss_with_weights() -> None:
    assert DeferredReweighting(BinaryCrossEntropy(reduction="none"), [1.0], start_epoch=1).reduction == "none"
    with pytest.raises(ValueError, match="weight=None"):
        DeferredReweighting(BinaryCrossEntropy(weight=[1.0]), [1.0], start_epoch=1)
    with pytest.raises(ValueError, match=r"tailmask\.losses"):
        DeferredReweighting(torch.nn.BCEWithLogitsLoss(), [1.0], start_epoch=1)


def test_bad_weights() -> None:
    with pytest.raises(ValueError, match=r"weight must have shape \(C,\)"):
        BinaryCrossEntropy(weight=torch.ones(2, 2))
    with pytest.raises(ValueError, match="weight must be finite numbers of 0 or more, got nan, -2"):
        BinaryCrossEntropy(weight=[1.0, float("nan"), -2.0])
    with pytest.raises(ValueError, match=r"weight .* 3 classes .* got 2"):
        BinaryCrossEntropy(weight=[1.0, 1.0])(torch.zeros(1, 3), torch.zeros(1, 3))


def test_weights_are_a_copy() -> None:
    weight = torch.ones(2)
    loss = BinaryCrossEntropy(weight=weight)
    weight[0] = 5.0
    assert loss.weight is not None
    assert loss.weight.tolist() == [1, 1]


def test_sample_weights_of_indices_compile_in_one_graph() -> None:
    compiled = torch.compile(sample_weights, fullgraph=True, backend="eager")
    indices, weights = torch.tensor([2, 0, -1]), torch.tensor([0.5, 1.0, 4.0])
    assert compiled(indices, weights).equal(sample_weights(indices, weights))


@pytest.mark.parametrize("values", [np.arange(3.0)[::-1], np.array([2.0, 1.0, 0.0], dtype=">f8")])
def test_weights_in_any_array(values: np.ndarray) -> None:
    assert BinaryCrossEntropy(weight=values).weight.tolist() == [2.0, 1.0, 0.0]
    assert FocalLoss(alpha=values / 2).alpha.tolist() == [1.0, 0.5, 0.0]


def test_weights_of_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="weight must be numbers, got an array of <U3: give a number"):
        BinaryCrossEntropy(weight=["cat", "dog"])


def test_positives_and_negatives_are_of_the_same_classes() -> None:
    with pytest.raises(ValueError, match=r"positives and negatives .* got 2 and 1"):
        positive_weights([1, 2], [3])
