"""Checkpoints of a criterion in the middle of an epoch, in one process or several."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tailmask.masking import PartialLabelMasking
from tailmask.masking.histograms import collective_device

__all__ = ["ResumableState", "process_rank", "world_size"]


class ResumableState:
    """The state from which a run can be resumed: the criterion's, with the statistics of all ranks.

    A criterion's own `state_dict` holds the statistics of one rank. This one sums them over the process
    group, and `load_state_dict` gives the sum to rank 0 only: the next `step` counts it once. If the
    criterion has its own generator, the state includes each rank's generator. All ranks must call both.

    >>> criterion = PartialLabelMasking.from_counts([1, 2], [3, 2])
    >>> criterion.update(torch.zeros(1, 2), torch.ones(1, 2))
    >>> state = ResumableState(criterion).state_dict()
    >>> resumed = PartialLabelMasking.from_counts([1, 2], [3, 2])
    >>> ResumableState(resumed).load_state_dict(state)
    >>> resumed.counts.equal(criterion.counts)
    True
    """

    def __init__(self, criterion: PartialLabelMasking) -> None:
        self.criterion = criterion

    def state_dict(self) -> dict[str, Tensor]:
        """The criterion's state with its statistics summed over ranks."""
        state: dict[str, Any] = self.criterion.state_dict()
        counts, faults = self.criterion.summed_statistics()
        state |= {"histograms.counts": counts, "histograms.faults": faults}
        if self.criterion.generator is not None:
            state["generators"] = _gather(self.criterion.generator.get_state())
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a state of `state_dict`. With another number of processes, generators stay unchanged."""
        own = {name: value for name, value in state.items() if name != "generators"}
        self.criterion.load_state_dict(own)
        if process_rank() > 0:
            self.criterion.reset()
        generators = state.get("generators", ())
        if self.criterion.generator is not None and len(generators) == world_size():
            # A copy: set_state reads from the start of the storage, not from the start of the row.
            self.criterion.generator.set_state(generators[process_rank()].cpu().clone())


def _gather(value: Tensor) -> Tensor:
    """The value of every rank, (number of ranks, …)."""
    if not _is_distributed():
        return value.unsqueeze(0)
    sent = value.to(collective_device(value.device))
    values = [torch.empty_like(sent) for _ in range(world_size())]
    torch.distributed.all_gather(values, sent)
    return torch.stack(values).to(value.device)


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def process_rank() -> int:
    """The rank of this process in the process group.

    >>> process_rank()
    0
    """
    return torch.distributed.get_rank() if _is_distributed() else 0


def world_size() -> int:
    """The number of processes in the process group.

    >>> world_size()
    1
    """
    return torch.distributed.get_world_size() if _is_distributed() else 1
