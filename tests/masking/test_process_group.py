"""Statistics summed over ranks, wherever the criterion is."""

from __future__ import annotations

import warnings
from pathlib import Path

import ddp_worker
import pytest
import torch

from forked import run_ranks
from second_device import second_device
from tailmask import PartialLabelMasking


@pytest.fixture
def criterion(targets):
    criterion = PartialLabelMasking.from_targets(targets)
    criterion(torch.randn(targets.shape, requires_grad=True), targets)
    return criterion


class TestProcessGroup:
    """A group serves some devices only, as NCCL does: the statistics may be elsewhere when a step comes."""

    @pytest.fixture
    def group(self, request):
        distributed = torch.distributed
        distributed.init_process_group(request.param, store=distributed.HashStore(), rank=0, world_size=1)
        yield
        distributed.destroy_process_group()

    @pytest.mark.parametrize("group", ["gloo", "cpu:gloo,cuda:gloo"], indirect=True)
    @pytest.mark.usefixtures("group")
    def test_serves_the_own_device(self, criterion, targets):
        assert criterion.summed_statistics()[0].sum() == targets.numel()
        criterion.step()

    @pytest.mark.parametrize("group", ["lazy:gloo"], indirect=True)
    @pytest.mark.usefixtures("group")
    def test_serves_another_device_only(self, criterion, monkeypatch):
        device, seen = second_device(), []
        if device.type != "lazy":
            pytest.skip("the group is for lazy tensors")
        # In the place of a backend for that device: two ranks with the same statistics.
        monkeypatch.setattr(
            torch.distributed, "all_reduce", lambda sums: seen.append(sums.device) or sums.mul_(2)
        )
        counts, faults = criterion.summed_statistics()
        assert seen == [device]
        assert counts.device == faults.device == torch.device("cpu")
        assert torch.equal(counts, 2 * criterion.counts)
        assert criterion.step().target_ratio.device == torch.device("cpu")


def test_two_ranks_give_one_process_s_ratios(tmp_path):
    """Given the same logits and targets, also when DDP wraps the loss as a submodule of the model."""
    out = tmp_path / "ratios.pt"
    ddp_worker.main(str(out))
    expected = torch.load(out, weights_only=True)
    run_ranks(Path(ddp_worker.__file__), tmp_path, out)
    result = torch.load(out, weights_only=True)
    assert len(expected) == len(result) == 3
    for one, two in zip(expected, result, strict=True):
        assert torch.equal(one, two)
    assert not torch.equal(expected[0], expected[-1])


class TestRanksWithTheSameData:
    """A group of two in the place of a real one: the sum is this rank's counts plus the other's."""

    @pytest.fixture
    def other(self, criterion, monkeypatch):
        """Makes the other rank's counts those that are given."""
        distributed = torch.distributed
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
        monkeypatch.setattr(distributed, "get_world_size", lambda: 2)

        def set_other(counts):
            sums = torch.cat([counts.flatten(), torch.zeros(2, dtype=counts.dtype)])
            monkeypatch.setattr(distributed, "all_reduce", lambda total: total.add_(sums))

        yield set_other
        distributed.destroy_process_group()

    def test_the_same_counts_on_all_ranks_are_told_once(self, criterion, targets, other):
        for warns in (True, False):
            criterion.update(torch.zeros(targets.shape), targets)
            other(criterion.counts.clone())
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                criterion.step()
            assert sum("all 2 ranks" in str(each.message) for each in caught) == warns

    def test_other_counts_are_in_order(self, criterion, targets, other):
        moved = criterion.counts.roll(1, dims=-1)
        for counts in (moved, torch.zeros_like(moved)):
            criterion.reset()
            criterion.update(torch.zeros(targets.shape), targets)
            other(counts)
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message=".*ranks")
                criterion.step()
