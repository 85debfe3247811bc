"""Resampled test sets, as the number of times that each sample was drawn."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["bootstrap_weights"]


def bootstrap_weights(
    num_samples: int, num_resamples: int, *, generator: torch.Generator | None = None
) -> Tensor:
    """The number of times that each sample is drawn in each resample with replacement, (B, N) int16.

    Use the same weights for two models to get paired differences.

    >>> weights = bootstrap_weights(5, 3, generator=torch.Generator().manual_seed(0))
    >>> weights.shape, weights.sum(dim=1)
    (torch.Size([3, 5]), tensor([5, 5, 5]))
    """
    device = torch.get_default_device() if generator is None else generator.device
    weights = torch.empty(num_resamples, num_samples, dtype=torch.int16, device=device)
    for row in weights:
        draw = torch.randint(
            num_samples, (num_samples,), generator=generator, dtype=torch.int32, device=device
        )
        row.copy_(torch.bincount(draw, minlength=num_samples))
    return weights
