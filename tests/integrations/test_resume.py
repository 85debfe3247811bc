"""Checkpoints of several processes, where the group does not serve the criterion's device."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tailmask import PartialLabelMasking
from tailmask.integrations import resume


@pytest.fixture
def group(tmp_path: Path):
    """A group of one process."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


def make() -> PartialLabelMasking:
    criterion = PartialLabelMasking.from_counts([1, 2], [3, 2], generator=torch.Generator().manual_seed(1))
    criterion.update(torch.zeros(1, 2), torch.ones(1, 2))
    return criterion


def test_states_of_generators_come_back(group) -> None:
    criterion, resumed = make(), make()
    torch.rand(3, generator=criterion.generator)
    state = resume.ResumableState(criterion).state_dict()
    assert state["generators"].device.type == "cpu"
    resume.ResumableState(resumed).load_state_dict(state)
    assert torch.rand(3, generator=resumed.generator).equal(torch.rand(3, generator=criterion.generator))


def test_states_of_generators_are_gathered_where_the_group_can(group, monkeypatch) -> None:
    """NCCL cannot on the CPU, where Lightning has moved the criterion to when training is over."""
    sent = []
    monkeypatch.setattr(resume, "collective_device", lambda _: torch.device("meta"))
    monkeypatch.setattr(torch.distributed, "all_gather", lambda _, value: sent.append(value.device.type))
    with pytest.raises(NotImplementedError, match="meta"):  # which holds no numbers to read
        resume.ResumableState(make()).state_dict()
    assert sent == ["meta"]
