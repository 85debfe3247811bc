"""The mask of a batch (Eq. 3): drawn or as keep probabilities, alone or fused with the loss."""

from __future__ import annotations

import torch
from torch import Tensor

from tailmask import functional
from tailmask.masking import kernels
from tailmask.masking.batch_reduction import Loss
from tailmask.masking.criterion_options import Options
from tailmask.masking.label_batch import LabelBatch

__all__ = ["can_fuse", "fused_loss", "label_weight"]


def label_weight(
    keep: Tensor, batch: LabelBatch, options: Options, generator: torch.Generator | None = None
) -> Tensor:
    """Factor of each label's loss (N, C): its mask g, or with `expected` its keep probability.

    >>> batch = LabelBatch(torch.zeros(2, 1), torch.tensor([[0.0], [1.0]]), None, None)
    >>> label_weight(torch.tensor([[0.5], [1.0]]), batch, Options.read(1, expected=True))
    tensor([[0.5000],
            [1.0000]])
    """
    targets, expected = batch.targets, options.expected
    if batch.known is None and not expected and _is_fast(batch, options, generator):
        return kernels.draw(keep, targets, generator)
    probability = functional.label_keep(keep.to(targets.dtype), targets)
    return probability if expected else functional.draw(probability, generator)


def can_fuse(
    loss: Loss | None,
    keep: Tensor,
    batch: LabelBatch,
    options: Options,
    generator: torch.Generator | None = None,
) -> bool:
    """True if `fused_loss` can be used: plain labels, cross-entropy, a drawn mask and a reduced loss.

    False if every label is kept: then the loss stays torch's own. The check waits for the device.
    """
    return (
        batch.known is None
        and loss is None
        and kernels.is_large(batch.logits)
        and not options.expected
        and options.reduction != "none"
        and _is_fast(batch, options, generator)
        and not bool(keep.min() >= 1)
    )


def fused_loss(
    keep: Tensor,
    batch: LabelBatch,
    options: Options,
    generator: torch.Generator | None = None,
    *,
    num_samples: int,
    counts: Tensor | None,
) -> Tensor:
    """Masked and reduced cross-entropy of a batch; the same kernel also adds to the histograms `counts`."""
    divisor = {"mean": batch.logits.numel(), "batchmean": num_samples, "sum": 1}[options.reduction]
    return kernels.masked_cross_entropy(
        batch.logits, batch.targets, keep, counts=counts, generator=generator, scale=1 / divisor
    )


def _is_fast(batch: LabelBatch, options: Options, generator: torch.Generator | None) -> bool:
    return kernels.applies(batch.logits, num_bins=options.num_bins, generator=generator)
