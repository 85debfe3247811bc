"""The paper's equations against the slow reference, and the properties that they must have."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference
from second_device import second_device
from tailmask import functional

ratios = hnp.arrays(np.float32, st.integers(1, 12), elements=st.floats(0.0009765625, 1000, width=32))
count_tables = st.tuples(st.integers(1, 9), st.integers(2, 12)).flatmap(
    lambda shape: hnp.arrays(np.int64, (2, *shape), elements=st.integers(0, 1000))
)


@st.composite
def batches(draw):
    """Probabilities (float32, the edges among them), soft targets and what is known of them, all (N, C)."""
    shape = (draw(st.integers(0, 20)), draw(st.integers(1, 6)))
    edges = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0])
    unit = st.one_of(edges, st.floats(0, 1, width=32))
    near_half = st.sampled_from([0.0, 1.0, 0.5, float(np.nextafter(np.float32(0.5), np.float32(0)))])
    return (
        draw(hnp.arrays(np.float32, shape, elements=unit)),
        draw(hnp.arrays(np.float32, shape, elements=st.one_of(near_half, st.floats(0, 1, width=32)))),
        draw(hnp.arrays(np.bool_, shape)),
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


class TestDraw:
    @pytest.mark.parametrize("shape", [(300, 5), (4096, 25)], ids=["small", "large"])
    def test_shares_are_the_probabilities(self, shape):
        keep = torch.tensor([0.0, 0.003, 0.25, 0.9, 1.0]).repeat(shape[0], shape[1] // 5)
        repeats = 200 if shape[0] < 1000 else 10
        generator = torch.Generator().manual_seed(1)
        share = torch.stack([functional.draw(keep, generator) for _ in range(repeats)]).mean(dim=(0, 1))
        deviation = (keep[0] * (1 - keep[0]) / (repeats * shape[0])).sqrt()
        assert ((share - keep[0]).abs() <= 4 * deviation).all()

    @pytest.mark.parametrize("size", [100, 2**15])
    def test_is_zero_or_one_and_sure_at_the_ends(self, size):
        for _ in range(50):
            assert (functional.draw(torch.ones(size)) == 1).all()
            assert (functional.draw(torch.zeros(size)) == 0).all()
        assert set(functional.draw(torch.full((size,), 0.5)).unique().tolist()) == {0.0, 1.0}

    def test_small_probabilities_are_not_rounded_to_16_bits(self):
        keep = torch.full((2**15,), 3e-6)  # a fifth of 2⁻¹⁶
        kept = sum(functional.draw(keep).sum().item() for _ in range(2000))
        expected = 2000 * 2**15 * 3e-6
        assert abs(kept - expected) < 6 * expected**0.5 + 40  # the shared bits add some variance

    @pytest.mark.parametrize("size", [100, 2**15])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
    def test_has_the_dtype_of_keep_whatever_the_default(self, size, dtype):
        torch.set_default_dtype(torch.float64)
        try:
            assert functional.draw(torch.full((size,), 0.5, dtype=dtype)).dtype == dtype
        finally:
            torch.set_default_dtype(torch.float32)

    @pytest.mark.parametrize("size", [100, 2**15])
    def test_a_generator_on_another_device_than_the_probabilities(self, size):
        keep = torch.full((size,), 0.5)
        mask = functional.draw(keep.to(second_device()), torch.Generator().manual_seed(7))
        assert mask.device == second_device()
        assert set(mask.cpu().unique().tolist()) == {0.0, 1.0}
        again = functional.draw(keep.to(second_device()), torch.Generator().manual_seed(7))
        assert torch.equal(mask.cpu(), again.cpu())

    def test_entries_are_independent(self):
        mask = functional.draw(torch.full((20000, 8), 0.5)).numpy()
        correlation = np.corrcoef(mask.T)
        assert np.abs(correlation - np.eye(8)).max() < 0.03
        assert abs(np.corrcoef(mask[:-1, 0], mask[1:, 0])[0, 1]) < 0.03

    @pytest.mark.parametrize("size", [100, 2**15])
    def test_generator_decides(self, size):
        keep = torch.full((size,), 0.5)
        one, same = (functional.draw(keep, torch.Generator().manual_seed(7)) for _ in range(2))
        other = functional.draw(keep, torch.Generator().manual_seed(8))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


class TestHistogram:
    def test_toy_example_of_the_appendix(self):
        labels = torch.tensor([1.0] * 5 + [0.0] * 5).unsqueeze(1)
        outputs = torch.tensor([0.2, 0.6, 0.95, 0.99, 0.45, 0.1, 0.15, 0.8, 0.4, 0.3]).unsqueeze(1)
        counts = functional.histogram(outputs, labels, 4)
        assert counts.tolist() == [[[2, 2, 0, 1]], [[1, 1, 1, 2]]]

    @given(batches(), st.integers(2, 13), st.booleans())
    def test_matches_reference(self, batch, num_bins, masked):
        probabilities, targets, known = batch
        counts = functional.histogram(
            torch.from_numpy(probabilities),
            torch.from_numpy(targets),
            num_bins,
            known=torch.from_numpy(known) if masked else None,
        )
        expected = reference.histogram(probabilities, targets, num_bins, known if masked else None)
        np.testing.assert_array_equal(counts.numpy(), expected)

    def test_integer_targets_and_double_outputs(self):
        probabilities, targets = torch.rand(30, 4, dtype=torch.float64), (torch.rand(30, 4) < 0.5).int()
        counts = functional.histogram(probabilities, targets, 5)
        assert torch.equal(counts, functional.histogram(probabilities, targets.double(), 5))

    def test_concatenation_is_a_sum(self):
        probabilities, targets = torch.rand(64, 7), (torch.rand(64, 7) < 0.2).float()
        whole = functional.histogram(probabilities, targets)
        parts = [
            functional.histogram(probabilities[part], targets[part]) for part in (slice(20), slice(20, 64))
        ]
        assert torch.equal(whole, parts[0] + parts[1])
        assert whole.sum() == 64 * 7

    def test_path_of_other_devices_gives_the_same(self):
        probabilities, targets = torch.rand(40, 6), (torch.rand(40, 6) < 0.2).float()
        known = torch.rand(40, 6) < 0.8
        compiled = torch.compile(functional.histogram, fullgraph=True, backend="eager")
        for mask in (None, known):
            assert torch.equal(
                compiled(probabilities, targets, 10, known=mask),
                functional.histogram(probabilities, targets, 10, known=mask),
            )

    @pytest.mark.parametrize("path", ["host", "compiling", "device"])
    @pytest.mark.parametrize(
        ("dtype", "unknown"),
        [
            (torch.int8, -1),
            (torch.int64, -1),
            (torch.uint8, 255),
            (torch.bool, True),
            (torch.float32, torch.nan),
            (torch.float32, -1.0),
            (torch.float64, 1e30),
            (torch.bfloat16, torch.nan),
        ],
    )
    def test_what_is_not_known_may_be_anything(self, monkeypatch, path, dtype, unknown):
        probabilities, labels = torch.rand(40, 6), torch.rand(40, 6) < 0.2
        known = torch.rand(40, 6) < 0.8
        expected = reference.histogram(probabilities.numpy(), labels.numpy(), 10, known.numpy())
        holes = torch.tensor([torch.nan, torch.inf, -torch.inf, -3.0, 7.0]).repeat(8).unsqueeze(1)
        probabilities = probabilities.where(known, holes)
        targets = labels.to(dtype).masked_fill(~known, unknown)
        if path == "compiling":
            monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
        if path == "device":
            probabilities, targets, known = (
                each.to(second_device()) for each in (probabilities, targets, known)
            )
        counts = functional.histogram(probabilities, targets, 10, known=known)
        np.testing.assert_array_equal(counts.cpu(), expected)


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

    @pytest.mark.parametrize("gap", [functional.divergence, functional.divergence_gap, functional.rate_gap])
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

    @given(count_tables, st.sampled_from([0.0, 1.0, 5.0, 1e6]))
    def test_rate_gap_is_the_reference(self, counts, shrinkage):
        counts = counts[..., : counts.shape[-1] // 2 * 2]
        gap = functional.rate_gap(torch.from_numpy(counts), shrinkage=shrinkage)
        np.testing.assert_allclose(gap, reference.rate_gap(counts, shrinkage), rtol=1e-4, atol=1e-5)

    def test_rate_gap_rests_where_shares_agree(self):
        # Ten positives and ten predictions, of which only half are right: the shares agree.
        counts = torch.tensor([[[85, 5]], [[5, 5]]])
        assert functional.rate_gap(counts).item() == 0

    def test_rate_gap_by_hand(self):
        counts = torch.tensor([[[88, 2]], [[4, 6]]])  # 10 of 100 are positive, 8 are predicted
        assert functional.rate_gap(counts).item() == pytest.approx(np.log(10.5 / 8.5), rel=1e-6)

    def test_a_class_without_evidence_moves_as_the_others_do(self):
        # Both others are present twice as often as predicted; of the last, nothing is known or predicted.
        counts = torch.tensor([[[90, 0], [80, 0], [100, 0]], [[5, 5], [10, 10], [0, 0]]])
        gap = functional.rate_gap(counts)
        assert gap[2] == pytest.approx(np.log(2), rel=0.1)
        assert functional.rate_gap(counts, shrinkage=0.0)[2] == 0

    def test_rate_gap_does_not_push_a_class_that_is_predicted_in_vain(self):
        # The last is never present and predicted ten times: its own evidence outweighs the others' need.
        counts = torch.tensor([[[90, 0], [80, 0], [90, 10]], [[5, 5], [10, 10], [0, 0]]])
        assert functional.rate_gap(counts)[2] < 0
        assert functional.rate_gap(counts, shrinkage=0.0)[2] == -1

    def test_rate_gap_refuses_a_negative_shrinkage(self):
        with pytest.raises(ValueError, match="shrinkage must be 0 or more"):
            functional.rate_gap(torch.ones(2, 3, 4), shrinkage=-1.0)

    def test_rate_gap_needs_an_edge_at_a_half(self):
        with pytest.raises(ValueError, match="even number of bins"):
            functional.rate_gap(torch.ones(2, 3, 5))


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
