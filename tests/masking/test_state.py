"""Casting, moving, saving and compiling the criterion's state."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tailmask import PartialLabelMasking


@pytest.fixture
def targets():
    return (torch.rand(120, 5) < torch.tensor([0.7, 0.4, 0.2, 0.1, 0.05])).float()


def train(criterion, targets, *, batches, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        criterion(torch.randn(targets.shape, generator=generator, requires_grad=True), targets)


class TestPrecision:
    @pytest.mark.parametrize("cast", ["half", "bfloat16", "double", "float"])
    def test_ratios_stay_float32_whatever_the_module_becomes(self, targets, cast):
        criterion = PartialLabelMasking.from_targets(targets, rate=0.123)
        train(criterion, targets, batches=1)
        criterion.step()
        before = {name: getattr(criterion, name).clone() for name in ("target_ratio", "keep", "counts")}
        model = nn.Sequential(nn.Linear(3, 5), criterion)
        getattr(model, cast)()
        for name, tensor in before.items():
            assert torch.equal(getattr(criterion, name), tensor)
            assert getattr(criterion, name).dtype == tensor.dtype

    @pytest.mark.parametrize("default", [torch.float16, torch.float64])
    def test_the_default_dtype_has_no_say(self, default):
        def state():
            criterion = PartialLabelMasking.from_counts(
                [300_000, 1_000], [700_000, 999_000], rate=0.5, initial_ratio="mean"
            )
            targets = torch.tensor([[1, 0], [0, 1], [0, 0]], dtype=torch.int8).repeat(40_000, 1)
            logits = torch.linspace(-3, 3, targets.numel(), dtype=torch.float32).view_as(targets)
            criterion.update(logits, targets)
            update = criterion.step()
            return {**criterion.state_dict(), "keep": criterion.keep, **update._asdict()}

        expected = state()
        torch.set_default_dtype(default)
        try:
            found = state()
        finally:
            torch.set_default_dtype(torch.float32)
        assert expected["gap"].isfinite().all()
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor), name
            assert found[name].dtype == tensor.dtype

    @pytest.mark.parametrize("default", [torch.float16, torch.bfloat16])
    def test_the_default_dtype_has_no_say_in_the_mean(self, default):
        """As of Lightning's "16-true", which sets it around a training step."""
        targets = (torch.arange(70_000) % 3 - 1.0).view(100, 700)  # a third is unknown
        criterion = PartialLabelMasking.from_targets(targets, expected=True)
        logits = torch.linspace(-3, 3, 70_000).view(100, 700).requires_grad_()
        expected = criterion(logits, targets)
        torch.set_default_dtype(default)
        try:
            found = criterion(logits, targets)
        finally:
            torch.set_default_dtype(torch.float32)
        assert torch.equal(found, expected)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_logits_are_computed_in_float32(self, targets, dtype):
        criterion = PartialLabelMasking.from_targets(targets, initial_ratio="mean", expected=True)
        logits = torch.randn(targets.shape).to(dtype).requires_grad_()
        loss = criterion(logits, targets)
        assert loss.dtype == torch.float32
        assert torch.equal(loss, criterion(logits.float(), targets))
        loss.backward()
        assert logits.grad.dtype == dtype

    def test_autocast(self, targets):
        model, inputs = nn.Linear(3, 5), torch.randn(120, 3)
        criterion = PartialLabelMasking.from_targets(targets)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(inputs)
            loss = criterion(logits, targets)
        assert logits.dtype == torch.bfloat16
        assert loss.dtype == torch.float32
        assert torch.equal(loss, F.binary_cross_entropy_with_logits(logits.float(), targets))

    @pytest.mark.parametrize("scale", [1e4, -1e4])
    def test_extreme_logits_are_finite(self, targets, scale):
        criterion = PartialLabelMasking.from_targets(targets, initial_ratio="max")
        logits = torch.full(targets.shape, scale, requires_grad=True)
        loss = criterion(logits, targets)
        loss.backward()
        assert loss.isfinite()
        assert logits.grad.isfinite().all()
        assert criterion.step().target_ratio.isfinite().all()


class TestDevices:
    def test_statistics_follow_the_module(self, targets):
        criterion = PartialLabelMasking.from_targets(targets).to("meta")
        names = ("class_counts", "target_ratio", "keep", "trained_keep", "num_steps", "counts", "faults")
        assert {getattr(criterion, name).device.type for name in names} == {"meta"}

    def test_general_path_runs_without_a_host(self, targets):
        # The meta device has no values: code that reads one fails.
        criterion = PartialLabelMasking.from_targets(targets, initial_ratio="mean").to("meta")
        loss = criterion(torch.randn(targets.shape, device="meta", requires_grad=True), targets.to("meta"))
        loss.backward()
        assert loss.device.type == "meta"


class TestSaving:
    @pytest.mark.parametrize("options", [{}, {"hold": 1}, {"damp": True}])
    def test_round_trip_in_the_middle_of_an_epoch(self, targets, tmp_path, options):
        whole = PartialLabelMasking.from_targets(targets, rate=0.5, **options)
        train(whole, targets, batches=2, seed=1)
        whole.step(lr_factor=1.0)
        train(whole, targets, batches=2, seed=2)
        torch.save(whole.state_dict(), tmp_path / "state.pt")
        resumed = PartialLabelMasking.from_targets(targets, rate=0.5, **options)
        resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        for criterion in (whole, resumed):
            train(criterion, targets, batches=1, seed=3)
        assert torch.equal(whole.counts, resumed.counts)
        assert torch.equal(whole.keep, resumed.keep)
        before = whole.target_ratio.clone()
        whole.step(lr_factor=0.1)
        assert torch.equal(whole.target_ratio, resumed.step(lr_factor=0.1).target_ratio)
        assert torch.equal(whole.target_ratio, before) == ("hold" in options)
        assert resumed.num_steps == 2

    def test_state_is_a_copy(self, targets):
        criterion = PartialLabelMasking.from_targets(targets)
        state = criterion.state_dict()
        train(criterion, targets, batches=1)
        assert not state["histograms.counts"].any()

    def test_inside_a_model(self, targets):
        model = nn.ModuleDict({"net": nn.Linear(3, 5), "loss": PartialLabelMasking.from_targets(targets)})
        train(model["loss"], targets, batches=1)
        other = copy.deepcopy(model)
        other["loss"].reset()
        other.load_state_dict(model.state_dict())
        assert torch.equal(other["loss"].counts, model["loss"].counts)

    def test_missing_statistics_are_missing_keys(self, targets):
        criterion = PartialLabelMasking.from_targets(targets)
        state = criterion.state_dict()
        del state["histograms.counts"]
        with pytest.raises(RuntimeError, match="counts"):
            criterion.load_state_dict(state)
        assert criterion.load_state_dict(state, strict=False).missing_keys == ["histograms.counts"]

    def test_no_buffer_holds_statistics(self, targets):
        # DDP broadcasts the buffers of rank 0 to all ranks before each forward.
        buffers = dict(PartialLabelMasking.from_targets(targets).named_buffers())
        assert set(buffers) == {"class_counts", "target_ratio", "num_steps", "keep", "trained_keep"}


class TestCompile:
    @pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.long)])
    def test_fullgraph_gives_the_same(self, targets, backend):
        eager, compiled = (PartialLabelMasking.from_targets(targets, rate=0.5) for _ in range(2))
        forward = torch.compile(compiled, fullgraph=True, backend=backend)
        for epoch in range(3):
            logits = torch.randn(targets.shape, generator=torch.Generator().manual_seed(epoch))
            one, two = logits.clone().requires_grad_(), logits.clone().requires_grad_()
            expected, value = eager(one, targets), forward(two, targets)
            expected.backward()
            value.backward()
            assert torch.equal(eager.counts, compiled.counts)
            if epoch == 0:  # nothing is masked yet
                torch.testing.assert_close(value, expected)
                torch.testing.assert_close(one.grad, two.grad)
            else:
                kept = (two.grad != 0).float().mean()
                assert 0 < kept < 1
            assert torch.equal(eager.step().target_ratio, compiled.step().target_ratio)

    def test_epochs_are_compiled_once(self, targets):
        criterion = PartialLabelMasking.from_targets(targets, rate=0.5)
        forward = torch.compile(criterion, fullgraph=True, backend="eager")
        logits = torch.randn(targets.shape, requires_grad=True)
        forward(logits, targets)
        with torch.compiler.set_stance("fail_on_recompile"):
            for _ in range(3):
                forward(logits, targets)
                in_force = criterion.keep.clone()
                criterion.step()
                assert torch.equal(criterion.trained_keep, in_force)
                assert not torch.equal(criterion.keep, in_force)

    @pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.long)])
    def test_a_shorter_last_batch(self, targets, backend):
        eager, compiled = (PartialLabelMasking.from_targets(targets) for _ in range(2))
        forward = torch.compile(compiled, fullgraph=True, backend=backend)
        for size in (50, 50, 20, 7):
            logits = torch.randn(size, 5, requires_grad=True)
            torch.testing.assert_close(forward(logits, targets[:size]), eager(logits, targets[:size]))
        assert torch.equal(eager.counts, compiled.counts)

    def test_unknown_labels_in_one_graph(self, targets):
        criterion = PartialLabelMasking.from_targets(targets)
        forward = torch.compile(criterion, fullgraph=True, backend="eager")
        holes = targets.masked_fill(torch.rand(targets.shape) < 0.2, torch.nan)
        logits = torch.randn(targets.shape, requires_grad=True)
        expected = F.binary_cross_entropy_with_logits(logits[~holes.isnan()], targets[~holes.isnan()])
        torch.testing.assert_close(forward(logits, holes), expected)

    @pytest.mark.parametrize("indices", [[0, 4, 2], [0, 5, 2], [0, -1, 2], [5, -1, -100]])
    def test_class_indices_in_one_graph(self, targets, indices):
        eager, compiled = (PartialLabelMasking.from_targets(targets) for _ in range(2))
        forward = torch.compile(compiled, fullgraph=True, backend="aot_eager")
        logits = torch.randn(3, 5, requires_grad=True)
        rows = torch.tensor(indices)
        torch.testing.assert_close(forward(logits, rows), eager(logits, rows))
        assert torch.equal(eager.counts, compiled.counts)
        outside = sum(index < -1 or index > 4 for index in indices)
        assert eager.faults.tolist() == compiled.faults.tolist() == [0, outside]
