"""Accelerate repeats samples to give all processes batches of the same size. Here no sample counts twice."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tailmask._util.messages import require
from tailmask.integrations.resume import process_rank, world_size
from tailmask.masking import PartialLabelMasking

__all__ = ["loss_of_all", "num_own_samples"]


def num_own_samples(num_samples: int) -> int:
    """The number of samples at the start of this process's batch that are not repeats.

    Accelerate fills the last batches (`even_batches`) with samples of earlier batches or of another process.
    These repeats are at the end of the batch. The loader in use tells how many there are.

    >>> num_own_samples(8)  # outside of accelerate's loaders
    8
    """
    state = require("accelerate.state", extra="hf").GradientState()
    # The Trainer loads all batches of an accumulated gradient in advance, and syncs at the last one.
    if not state.end_of_dataloader or (torch.is_grad_enabled() and not state.sync_gradients):
        return num_samples
    shard = _find_shard(state.active_dataloader)
    if shard is not None:
        rank, num_last = shard.process_index, _num_last(shard)
    else:  # the first process reads all batches and sends the others their part, or there is only one process
        rank, num_last = process_rank(), state.remainder if world_size() > 1 else 0
    return min(max(num_last - rank * num_samples, 0), num_samples) if num_last > 0 else num_samples


def loss_of_all(criterion: PartialLabelMasking, logits: Tensor, targets: Tensor, *, num_own: int) -> Tensor:
    """The criterion's loss of the whole batch. Only the first `num_own` samples enter its statistics.

    >>> criterion = PartialLabelMasking.from_counts([1, 1], [1, 1])
    >>> logits = torch.zeros(3, 2, requires_grad=True)
    >>> loss_of_all(criterion, logits, torch.ones(3, 2), num_own=1)
    tensor(0.6931, grad_fn=<AddBackward0>)
    >>> criterion.counts.sum()
    tensor(2)
    """
    if num_own == len(logits) or criterion.statistics == "validation":
        whole: Tensor = criterion(logits, targets)
        return whole
    own, others = (slice(num_own), slice(num_own, None))
    criterion.statistics = "validation"  # training outputs no longer count
    try:
        value: Tensor = criterion(logits[others], targets[others]) * _share(criterion, targets, others)
    finally:
        criterion.statistics = "training"
    if num_own > 0:
        value = value + criterion(logits[own], targets[own]) * _share(criterion, targets, own)
    return value


def _share(criterion: PartialLabelMasking, targets: Tensor, part: slice) -> Tensor | float:
    """The weight of a part's loss in the loss of the batch."""
    if criterion.reduction == "sum":
        return 1.0
    if criterion.reduction == "batchmean":
        return len(targets[part]) / len(targets)
    known = targets >= 0
    return known[part].sum() / known.sum().clamp(min=1)


def _num_last(shard: Any) -> int:
    """Number of samples left for the last batches of all processes; 0 if these are full or it is unknown."""
    drawn = getattr(shard.batch_sampler, "sampler", None)
    if shard.drop_last or not shard.even_batches or shard.batch_size is None or drawn is None:
        return 0
    num_batches = 1 if shard.split_batches else shard.num_processes
    return len(drawn) % int(shard.batch_size * num_batches)


def _find_shard(loader: Any) -> Any:
    """The sampler of this process's batches, even if it is wrapped in one that skips the first batches."""
    kind = require("accelerate.data_loader", extra="hf").BatchSamplerShard
    sampler = loader
    while sampler is not None and not isinstance(sampler, kind):
        sampler = getattr(sampler, "batch_sampler", None)
    return sampler
