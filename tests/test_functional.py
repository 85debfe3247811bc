"""The paper's equations against the slow reference, and the properties that they must have."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference
from tailmask import functional

ratios = hnp.arrays(np.float32, st.integers(1, 12), elements=st.floats(0.0009765625, 1000, width=32))
count_tables = st.tuples(st.integers(1, 9), st.integers(2, 12)).flatmap(
    lambda shape: hnp.arrays(np.int64, (2, *shape), elements=st.integers(0, 1000))
)


class TestClassRatio:
    def test_is_positives_over_negatives_not_over_all(self):
        ratio = functional.class_ratio(torch.tensor([10]), torch.tensor([40]))
        assert ratio.item() == 0.25  # 0.2 would be the share

    def test_classes_without_a_label_are_finite(self):
        ratio = functional.class_ratio(torch.tensor([0, 5, 0]), torch.tensor([5, 0, 0]))
        assert ratio.isfinite().all()
        assert (ratio > 0).all()
        assert ratio[2] == 1

    def test_matches_reference(self):
        targets = (torch.rand(50, 4) < 0.3).int()
        ratio = functional.class_ratio(targets.sum(0), (1 - targets).sum(0))
        np.testing.assert_allclose(ratio.numpy(), reference.class_ratio(targets.numpy()), rtol=1e-6)


class TestKeepProbability:
    @given(ratios, st.randoms(use_true_random=False))
    def test_matches_reference_and_masks_one_side_only(self, class_ratio, random):
        target_ratio = class_ratio * np.float32(random.choice([0.1, 0.5, 1.0, 2.0, 30.0]))
        keep = functional.keep_probability(torch.from_numpy(class_ratio), torch.from_numpy(target_ratio))
        expected = [
            [reference.keep_probability(label, *pair) for pair in zip(class_ratio, target_ratio, strict=True)]
            for label in (0, 1)
        ]
        np.testing.assert_allclose(keep.numpy(), expected, rtol=1e-5)
        assert ((keep >= 0) & (keep <= 1)).all()
        assert (keep.amax(dim=0) == 1).all()

    def test_loss_sees_the_target_ratio(self):
        positives, negatives = torch.tensor([600.0, 20.0]), torch.tensor([400.0, 980.0])
        target = torch.tensor([0.7, 0.3])
        keep = functional.keep_probability(functional.class_ratio(positives, negatives), target)
        torch.testing.assert_close(positives * keep[1] / (negatives * keep[0]), target)


class TestDivergence:
    @given(count_tables)
    def test_matches_reference(self, counts):
        result = functional.divergence(torch.from_numpy(counts)).numpy()
        np.testing.assert_allclose(result, reference.divergence(counts), rtol=1e-4, atol=1e-4)

    def test_direction_is_predicted_from_true(self):
        # Half of the positives in either bin: KL(P̂ ‖ P) = −log 2 + ½ log(1/ε); KL(P ‖ P̂) would be log 2.
        counts = torch.tensor([[[1, 0]], [[5, 5]]])
        expected = -np.log(2) - 0.5 * np.log(1e-7)
        assert functional.divergence(counts)[1, 0].item() == pytest.approx(expected, rel=1e-5)

    def test_is_zero_for_right_outputs_and_nan_for_unseen_labels(self):
        counts = torch.tensor([[[4, 0]], [[0, 0]]])
        negative, positive = functional.divergence(counts)[:, 0]
        assert negative == 0
        assert positive.isnan()

    @pytest.mark.parametrize(
        "gap", [functional.divergence, functional.divergence_gap, functional.prevalence_gap]
    )
    @pytest.mark.parametrize("default", [torch.float16, torch.float64])
    def test_is_float32_whatever_the_default(self, gap, default):
        counts = torch.randint(1_000_000, (2, 5, 10))
        expected = gap(counts)
        torch.set_default_dtype(default)
        try:
            assert torch.equal(gap(counts), expected)
        finally:
            torch.set_default_dtype(torch.float32)


class TestNormalize:
    @given(count_tables)
    def test_matches_reference(self, counts):
        divergences = functional.divergence(torch.from_numpy(counts))
        result = functional.normalize(divergences).numpy()
        expected = reference.normalize(divergences.double().numpy())
        np.testing.assert_allclose(result, expected, rtol=2e-2, atol=2e-3)

    def test_each_label_is_normalised_over_the_classes(self):
        scores = functional.normalize(torch.rand(2, 10))
        torch.testing.assert_close(scores.mean(dim=1), torch.zeros(2), atol=1e-6, rtol=0)
        torch.testing.assert_close(scores.std(dim=1, correction=0), torch.ones(2))

    def test_one_missing_class_does_not_spread(self):
        divergences = torch.tensor([[1.0, 2.0, 3.0, 9.0], [3.0, 1.0, 2.0, torch.nan]])
        scores = functional.normalize(divergences)
        torch.testing.assert_close(scores[:, :3], functional.normalize(divergences[:, :3]))
        assert scores[:, 3].isnan().all()

    def test_equal_divergences_give_zero(self):
        assert (functional.normalize(torch.full((2, 7), 0.1)) == 0).all()


class TestGaps:
    @given(count_tables, st.permutations(range(9)))
    def test_permuting_classes_permutes_gaps(self, counts, order):
        order = [index for index in order if index < counts.shape[1]]
        counts = torch.from_numpy(counts)
        gap, permuted = functional.divergence_gap(counts), functional.divergence_gap(counts[:, order])
        torch.testing.assert_close(permuted, gap[order], rtol=1e-3, atol=1e-3)

    @given(count_tables)
    def test_divergence_gap_is_finite_and_zero_without_both_labels(self, counts):
        counts = torch.from_numpy(counts)
        incomplete = (counts.sum(dim=-1) == 0).any(dim=0)
        values = functional.divergence_gap(counts)
        assert values.isfinite().all()
        assert (values[incomplete] == 0).all()

    @pytest.mark.parametrize(
        ("negatives", "positives", "gap"),
        [
            ([[9, 1], [8, 2]], [[5, 5], [4, 6]], 2),
            ([[9, 1], [9, 1]], [[5, 5], [4, 6]], 1),
            ([[8, 2], [9, 1]], [[5, 5], [4, 6]], 0),
        ],
    )
    def test_of_two_classes_only_the_signs_count(self, negatives, positives, gap):
        found = functional.divergence_gap(torch.tensor([negatives, positives]))
        torch.testing.assert_close(found, torch.tensor([1.0, -1.0]) * gap)

    @given(count_tables, st.sampled_from([0.0, 1.0, 5.0, 1e6]))
    def test_prevalence_gap_is_the_reference(self, counts, shrinkage):
        counts = counts[..., : counts.shape[-1] // 2 * 2]
        gap = functional.prevalence_gap(torch.from_numpy(counts), shrinkage=shrinkage)
        np.testing.assert_allclose(gap, reference.prevalence_gap(counts, shrinkage), rtol=1e-4, atol=1e-5)

    def test_prevalence_gap_rests_where_shares_agree(self):
        # Ten positives and ten predictions; only half of them are right. The shares agree.
        counts = torch.tensor([[[85, 5]], [[5, 5]]])
        assert functional.prevalence_gap(counts).item() == 0

    def test_prevalence_gap_by_hand(self):
        counts = torch.tensor([[[88, 2]], [[4, 6]]])  # 10 of 100 are positive, 8 are predicted
        assert functional.prevalence_gap(counts).item() == pytest.approx(np.log(10.5 / 8.5), rel=1e-6)

    def test_a_class_without_evidence_moves_as_the_others_do(self):
        # Both others are present twice as often as predicted; of the last, nothing is known or predicted.
        counts = torch.tensor([[[90, 0], [80, 0], [100, 0]], [[5, 5], [10, 10], [0, 0]]])
        gap = functional.prevalence_gap(counts)
        assert gap[2] == pytest.approx(np.log(2), rel=0.1)
        assert functional.prevalence_gap(counts, shrinkage=0.0)[2] == 0

    def test_prevalence_gap_does_not_push_a_class_that_is_predicted_in_vain(self):
        # The last is never present and predicted ten times: its own evidence outweighs the others' need.
        counts = torch.tensor([[[90, 0], [80, 0], [90, 10]], [[5, 5], [10, 10], [0, 0]]])
        assert functional.prevalence_gap(counts)[2] < 0
        assert functional.prevalence_gap(counts, shrinkage=0.0)[2] == -1

    @pytest.mark.parametrize("shrinkage", [-1.0, np.inf, np.nan])
    def test_prevalence_gap_refuses_a_shrinkage_that_is_none(self, shrinkage):
        with pytest.raises(ValueError, match="shrinkage must be 0 or more and finite"):
            functional.prevalence_gap(torch.ones(2, 3, 4), shrinkage=shrinkage)

    def test_prevalence_gap_needs_an_edge_at_a_half(self):
        with pytest.raises(ValueError, match="even number of bins"):
            functional.prevalence_gap(torch.ones(2, 3, 5))


class TestNextRatio:
    @given(count_tables, st.floats(0, 1))
    def test_matches_reference(self, counts, rate):
        ratio = np.linspace(0.01, 2, counts.shape[1])
        gap = functional.divergence_gap(torch.from_numpy(counts))
        result = functional.next_ratio(torch.from_numpy(ratio).float(), gap, rate).numpy()
        np.testing.assert_allclose(result, reference.next_ratio(ratio, counts, rate), rtol=2e-2)

    @given(ratios)
    def test_rate_zero_keeps_the_ratio(self, ratio):
        ratio = torch.from_numpy(ratio)
        assert torch.equal(functional.next_ratio(ratio, torch.randn(len(ratio)), 0.0), ratio)

    def test_is_bounded(self):
        ratio = torch.ones(2)
        for _ in range(100):
            ratio = functional.next_ratio(ratio, torch.tensor([6.0, -6.0]), 1.0)
        assert ratio.isfinite().all()
        assert (ratio > 0).all()
        assert ratio.log().tolist() == pytest.approx([30, -30])


@pytest.mark.parametrize("num_classes", [4, 1000])
@pytest.mark.parametrize("known", [None, "all"])
def test_outputs_in_any_memory_layout_are_counted_alike(num_classes, known):
    probabilities, targets = torch.rand(30, num_classes), (torch.rand(30, num_classes) < 0.3).float()
    known = None if known is None else torch.ones_like(targets, dtype=torch.bool)
    expected = functional.histogram(probabilities, targets, known=known)
    transposed = probabilities.t().contiguous().t()
    assert not transposed.is_contiguous()
    assert torch.equal(functional.histogram(transposed, targets, known=known), expected)
    assert torch.equal(functional.histogram(transposed, targets.t().contiguous().t(), known=known), expected)
