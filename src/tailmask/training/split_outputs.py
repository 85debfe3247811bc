"""Outputs of a network on a whole split, and their metrics."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tailmask.data.dataset import BatchSource, Split
from tailmask.metrics import average_precision, confusion, exact_match
from tailmask.metrics.evaluation import Activation, activate
from tailmask.models.trial_run import evaluation_mode
from tailmask.training.batches import Batches, Shard, loader

__all__ = ["all_targets", "predict", "validation_metrics"]


@torch.inference_mode()
def predict(
    network: nn.Module, split: Split, *, shard: Shard | None = None, device: torch.device | str = "cpu"
) -> Tensor:
    """Outputs (N, C) of the network in evaluation mode, float32, on the CPU.

    With a shard, each rank computes its own rows, and all ranks get all outputs. The other ranks copy the
    buffers of the first rank's network, so all outputs come from the same network.

    >>> predict(nn.Linear(3, 2), Split(torch.eye(3), torch.zeros(3, 2, dtype=torch.int8))).shape
    torch.Size([3, 2])
    """
    rank, world_size = shard or Shard()
    if world_size > 1:
        _share_buffers(network)
    rows = torch.arange(rank, len(split), world_size)
    batches = Batches(split, rows, batch_size=_batch_size(split))
    # All outputs may not fit on a GPU, but ranks can only gather them on their devices.
    kept = device if world_size > 1 else "cpu"
    with evaluation_mode(network):
        outputs = [network(batch.inputs.to(device)).float().to(kept) for batch in loader(batches)]
    local = torch.cat(outputs) if outputs else torch.empty(0, split.num_classes, device=kept)
    if world_size == 1:
        return local
    number = -(-len(split) // world_size)
    padded = nn.functional.pad(local, (0, 0, 0, number - len(local))).contiguous()
    gathered = [torch.empty_like(padded) for _ in range(world_size)]
    torch.distributed.all_gather(gathered, padded)
    return torch.stack(gathered, dim=1).flatten(0, 1)[: len(split)].cpu()


def _batch_size(split: Split) -> int:
    """The number of samples in a batch.

    Larger batches of images do not fit into the CPU's cache, and larger batches of tokens do not fit into
    memory. For table rows, the calls are the main cost.
    """
    if len(split.shape) == 3:
        return 128
    return 32 if isinstance(split.inputs, BatchSource) else 1024


def _share_buffers(network: nn.Module) -> None:
    """Give all ranks the first rank's buffers, such as the statistics of batch normalisation.

    DDP does this before each training pass, so after the last pass the ranks have different statistics.
    """
    for buffer in network.buffers():
        content = buffer.contiguous()
        torch.distributed.broadcast(content, src=0)
        if not buffer.equal(content):  # an expanded buffer cannot be written to
            buffer.copy_(content)


def all_targets(split: Split) -> Tensor:
    """Targets (N, C) of a split as one dense int8 tensor."""
    if isinstance(split.targets, Tensor):
        return split.targets
    return torch.from_numpy(split.targets.toarray()).to(torch.int8)


def validation_metrics(
    logits: Tensor,
    targets: Tensor,
    *,
    threshold: float,
    single_label: bool,
    activation: Activation = "sigmoid",
) -> dict[str, float]:
    """The metrics that are computed after each epoch.

    >>> validation_metrics(
    ...     torch.tensor([[2.0, -1.0], [-1.0, 1.0]]),
    ...     torch.tensor([[1, 0], [0, 1]]),
    ...     threshold=0.5,
    ...     single_label=False,
    ... )
    {'f1': 1.0, 'ap': 1.0, 'exact_match': 1.0}
    """
    scores, probabilities = activate(logits, activation)
    if single_label:
        predictions = nn.functional.one_hot(scores.argmax(dim=1), scores.shape[1]).bool()
    else:
        predictions = probabilities >= threshold
    return {
        "f1": float(confusion(predictions, targets).f1.mean()),
        "ap": float(average_precision(scores, targets).nanmean()),
        "exact_match": float(exact_match(predictions, targets).nanmean()),
    }
