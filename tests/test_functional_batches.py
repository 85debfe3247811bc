"""What is done to every batch, the draw and the histogram: statistics, properties, every device's path."""

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
