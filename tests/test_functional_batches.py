"""What is done to every batch, the draw and the histogram: statistics and properties."""

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


class TestDraw:
    def test_shares_are_the_probabilities(self):
        keep = torch.tensor([0.0, 0.003, 0.25, 0.9, 1.0]).repeat(300, 1)
        generator = torch.Generator().manual_seed(1)
        share = torch.stack([functional.draw(keep, generator) for _ in range(200)]).mean(dim=(0, 1))
        deviation = (keep[0] * (1 - keep[0]) / (200 * 300)).sqrt()
        assert ((share - keep[0]).abs() <= 4 * deviation).all()

    def test_is_zero_or_one_and_sure_at_the_ends(self):
        for _ in range(50):
            assert (functional.draw(torch.ones(100)) == 1).all()
            assert (functional.draw(torch.zeros(100)) == 0).all()
        assert set(functional.draw(torch.full((100,), 0.5)).unique().tolist()) == {0.0, 1.0}

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
    def test_has_the_dtype_of_keep_whatever_the_default(self, dtype):
        torch.set_default_dtype(torch.float64)
        try:
            assert functional.draw(torch.full((100,), 0.5, dtype=dtype)).dtype == dtype
        finally:
            torch.set_default_dtype(torch.float32)

    def test_a_generator_on_another_device_than_the_probabilities(self):
        keep = torch.full((100,), 0.5)
        mask = functional.draw(keep.to(second_device()), torch.Generator().manual_seed(7))
        assert mask.device == second_device()
        assert set(mask.cpu().unique().tolist()) == {0.0, 1.0}
        again = functional.draw(keep.to(second_device()), torch.Generator().manual_seed(7))
        assert torch.equal(mask.cpu(), again.cpu())

    def test_generator_decides(self):
        keep = torch.full((100,), 0.5)
        one, same = (functional.draw(keep, torch.Generator().manual_seed(7)) for _ in range(2))
        other = functional.draw(keep, torch.Generator().manual_seed(8))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


@given(batches())
def test_labels_are_kept_by_their_side_of_a_half(batch):
    _, targets, _ = batch
    keep = np.random.default_rng(0).random((2, targets.shape[1]), dtype=np.float32)
    found = functional.label_keep(torch.from_numpy(keep), torch.from_numpy(targets))
    expected = [[keep[1 if label >= 0.5 else 0, index] for index, label in enumerate(row)] for row in targets]
    np.testing.assert_array_equal(found, np.array(expected, dtype=np.float32).reshape(targets.shape))


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

    def test_compiles_in_one_graph(self):
        probabilities, targets = torch.rand(40, 6), (torch.rand(40, 6) < 0.2).float()
        known = torch.rand(40, 6) < 0.8
        compiled = torch.compile(functional.histogram, fullgraph=True, backend="eager")
        for mask in (None, known):
            assert torch.equal(
                compiled(probabilities, targets, 10, known=mask),
                functional.histogram(probabilities, targets, 10, known=mask),
            )

    @pytest.mark.parametrize("device", [False, True])
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
    def test_what_is_not_known_may_be_anything(self, device, dtype, unknown):
        probabilities, labels = torch.rand(40, 6), torch.rand(40, 6) < 0.2
        known = torch.rand(40, 6) < 0.8
        expected = reference.histogram(probabilities.numpy(), labels.numpy(), 10, known.numpy())
        holes = torch.tensor([torch.nan, torch.inf, -torch.inf, -3.0, 7.0]).repeat(8).unsqueeze(1)
        probabilities = probabilities.where(known, holes)
        targets = labels.to(dtype).masked_fill(~known, unknown)
        if device:
            probabilities, targets, known = (
                each.to(second_device()) for each in (probabilities, targets, known)
            )
        counts = functional.histogram(probabilities, targets, 10, known=known)
        np.testing.assert_array_equal(counts.cpu(), expected)
