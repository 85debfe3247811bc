"""A part of the training data to hold out, with a fair share of every class."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["hold_out"]


def hold_out(targets: Tensor, fraction: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Indices of the kept and the held-out samples; about `fraction` of each class's positives is held out.

    The rarest class chooses first: it has few samples to choose from, while a frequent class finds enough
    among the others. A class with a single positive keeps it. Samples without a known label are kept, because
    they say nothing about any class.

    >>> targets = torch.tensor([[1, 0]] * 4 + [[0, 1]] * 16)
    >>> kept, held = hold_out(targets, 0.25, torch.Generator().manual_seed(0))
    >>> targets[held].sum(dim=0)
    tensor([1, 4])
    """
    present = targets >= 0.5  # (N, C)
    free = torch.ones_like(targets[:, 0], dtype=torch.bool)
    held = torch.zeros_like(free)
    groups = [*present.T[present.sum(dim=0).argsort()], (targets >= 0).any(dim=1)]
    for members in groups:  # the last group is all samples: some have no positive label
        number = int(members.sum())
        wanted = min(int(fraction * number + 0.5), number - 1) - int((members & held).sum())
        candidates = (members & free).nonzero().flatten()
        chosen = candidates[
            torch.randperm(len(candidates), generator=generator, device=generator.device)[: max(wanted, 0)]
        ]
        held[chosen] = True
        free[members] = False
    return (~held).nonzero().flatten(), held.nonzero().flatten()
