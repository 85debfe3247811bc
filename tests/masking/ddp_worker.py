"""Three epochs of PLM on given logits, as one process or as a rank of a gloo group."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

from tailmask import PartialLabelMasking


class GivenLogits(nn.Module):
    """A model whose outputs are its inputs, with the loss inside, as Lightning wraps it."""

    def __init__(self, criterion: PartialLabelMasking) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.criterion = criterion

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.criterion(logits * self.scale, targets)


def main(out: str) -> None:
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    torch.manual_seed(0)
    targets = (torch.rand(96, 6) < torch.tensor([0.8, 0.5, 0.3, 0.2, 0.1, 0.05])).float()
    criterion = PartialLabelMasking.from_targets(targets, rate=0.4)
    model: nn.Module = GivenLogits(criterion)
    rank = 0
    if world_size > 1:
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        model = nn.parallel.DistributedDataParallel(model)
    ratios = []
    for epoch in range(3):
        logits = torch.randn(96, 6, generator=torch.Generator().manual_seed(epoch))
        for part in torch.arange(96).split(32):
            mine = part[rank::world_size]
            model(logits[mine], targets[mine]).backward()
        ratios.append(criterion.step().target_ratio)
    if rank == 0:
        torch.save(ratios, out)
    if world_size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
