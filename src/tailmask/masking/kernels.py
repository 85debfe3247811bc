"""Fast versions of the plain functions, for eager float32 on the CPU.

Each returns the same as the plain function of `tailmask.functional` (`tests/masking/test_kernels.py`), and
has a line in `benchmarks/loss.py` that shows what it saves. `applies` says when they can be used.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "add_histogram",
    "applies",
    "draw",
    "histogram",
    "is_large",
    "is_small_and_plain",
    "masked_cross_entropy",
    "small_masked_cross_entropy",
]

# With fewer labels than this, calls cost more than arithmetic, and the plain functions make fewer calls.
_LARGE = 2**14

# Number of labels per block: the temporaries of a block stay in the processor's cache.
_BLOCK = 2**17

# Number of values from ½ to 1 that are multiplied before taking a logarithm: such a product never underflows.
_FACTORS = 64


def applies(logits: Tensor, *, num_bins: int, generator: torch.Generator | None = None) -> bool:
    """True if the kernels can be used for logits of shape (N, C).

    >>> applies(torch.zeros(2, 3), num_bins=10), applies(torch.zeros(2, 3, dtype=torch.float64), num_bins=10)
    (True, False)
    """
    return (
        not torch.compiler.is_compiling()
        and logits.is_cpu
        and logits.dtype == torch.float32
        and (generator is None or generator.device.type == "cpu")
        and 2 * logits.shape[1] * num_bins < 2**31  # bins are numbered in int32
    )


def is_large(logits: Tensor) -> bool:
    """True if `masked_cross_entropy` is faster than torch's own cross-entropy with a drawn mask."""
    return logits.numel() >= _LARGE


def histogram(
    probabilities: Tensor, targets: Tensor, num_bins: int, *, known: Tensor | None = None
) -> Tensor:
    """`functional.histogram` with one `bincount` of int32; if `known` is None, all targets must be 0 or 1.

    >>> histogram(torch.tensor([[0.2], [0.9]]), torch.tensor([[0.0], [1.0]]), 2)
    tensor([[[1, 0]],
    <BLANKLINE>
            [[0, 1]]])
    """
    num_classes = probabilities.shape[1]
    size = num_classes * num_bins
    label = targets.int() if known is None else (targets >= 0.5).int()
    number, first = _bins(num_classes, num_bins)
    index = (probabilities * number).clamp_max_(num_bins - 1).int()
    index.add_(first).add_(label, alpha=size)
    index = index.ravel() if known is None else index[known]
    return torch.bincount(index, minlength=2 * size).view(2, num_classes, num_bins)


@functools.lru_cache(maxsize=16)
def _bins(num_classes: int, num_bins: int) -> tuple[Tensor, Tensor]:
    """The number of bins as a tensor, and the first bin of each class (C,).

    They are cached, because making them anew would slow down a small batch.
    """
    first = torch.arange(0, num_classes * num_bins, num_bins, dtype=torch.int32, device="cpu")
    return torch.tensor(num_bins, dtype=torch.float32, device="cpu"), first


def add_histogram(counts: Tensor, logits: Tensor, targets: Tensor, *, known: Tensor | None = None) -> None:
    """Add the histogram of a batch of any size to `counts` (2, C, bins), block by block.

    >>> counts = torch.zeros(2, 1, 2, dtype=torch.int64)
    >>> add_histogram(counts, torch.tensor([[-1.0], [2.0]]), torch.tensor([[0.0], [1.0]]))
    >>> counts.tolist()
    [[[1, 0]], [[0, 1]]]
    """
    num_bins = counts.shape[-1]
    if logits.numel() <= _BLOCK:
        counts += histogram(logits.sigmoid(), targets, num_bins, known=known)
        return
    for block in _blocks(*logits.shape):
        part = None if known is None else known[block]
        counts[:, block[1]] += histogram(logits[block].sigmoid(), targets[block], num_bins, known=part)


def draw(keep: Tensor, targets: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """`functional.draw` for targets (N, C) of 0 and 1 and keep probabilities (2, C).

    A large batch uses 16 random bits per label: a label is kept if its 16 bits, read as an integer, are below
    keep · 2¹⁶ minus an offset from [0, 1). Each class has one random offset per batch. Without it, the
    probability would be a multiple of 2⁻¹⁶; averaged over the offset, it is `keep` (to 2⁻²⁴). A small batch
    draws a float32 for each label.

    >>> draw(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if not is_large(targets):
        return _draw_small(keep.unbind(), targets, generator)
    num_samples, num_classes = targets.shape
    size = (num_samples + 1) * num_classes
    words = torch.empty(size // 4 + 1, dtype=torch.int64, device="cpu")
    words.random_(-(2**63), None, generator=generator)  # all 64 bits: four labels per word
    bits = words.view(torch.int16)[:size].view(-1, num_classes)  # (N + 1, C), from −2¹⁵ to 2¹⁵ − 1
    offset = (bits[-1] >> 8).float().add_(128).mul_(2**-8)  # multiples of 2⁻⁸: certain labels stay certain
    negatives, positives = (keep * 2**16 - (offset + 2**15)).unbind()
    return bits[:-1].float().lt_(torch.lerp(negatives, positives, targets))


def _draw_small(
    keep: tuple[Tensor, ...], targets: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    negatives, positives = keep
    uniform = torch.empty_like(targets).uniform_(generator=generator)
    return uniform.lt_(torch.lerp(negatives, positives, targets))


def masked_cross_entropy(
    logits: Tensor,
    targets: Tensor,
    keep: Tensor,
    *,
    counts: Tensor | None = None,
    generator: torch.Generator | None = None,
    scale: float = 1.0,
) -> Tensor:
    """`scale` times the summed cross-entropy of the labels that a draw keeps (Eq. 2); targets are 0 or 1.

    One sigmoid serves the loss, its gradient and the histogram. The histogram is added to `counts`
    (2, C, bins) unless that is None.

    >>> logits, targets = torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 0.0]])
    >>> masked_cross_entropy(logits, targets, torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
    tensor(0.6931)
    """
    loss: Tensor = _MaskedCrossEntropy.apply(logits, targets, keep, counts, generator, scale)  # type: ignore[no-untyped-call]  # torch's own
    return loss


def is_small_and_plain(
    logits: Tensor, targets: Tensor, counts: Tensor, generator: torch.Generator | None = None
) -> bool:
    """True if `small_masked_cross_entropy` can be used: few labels (N, C) of 0 and 1, and finite logits.

    >>> counts = torch.zeros(2, 3, 10, dtype=torch.int64)
    >>> is_small_and_plain(torch.zeros(5, 3), torch.ones(5, 3), counts)
    True
    >>> is_small_and_plain(torch.zeros(5, 3), torch.full((5, 3), -1.0), counts)
    False
    """
    if (
        torch.compiler.is_compiling()
        or not (logits.is_cpu and counts.is_cpu)
        or not (logits.dtype is targets.dtype is torch.float32)
        or logits.ndim != 2
        or logits.shape != targets.shape
        or logits.shape[1] != counts.shape[1]
        or logits.numel() >= _LARGE
        or counts.numel() >= 2**31
        or not (generator is None or generator.device.type == "cpu")
    ):
        return False
    # t − t² is 0 for 0 and 1 only, and 0 · x is 0 for finite x only.
    differences = torch.addcmul(targets, targets, targets, value=-1).add_(logits.detach(), alpha=0)
    return bool(torch.linalg.vector_norm(differences).item() == 0)


def small_masked_cross_entropy(
    logits: Tensor,
    targets: Tensor,
    keep: tuple[Tensor, ...],
    *,
    counts: Tensor | None = None,
    generator: torch.Generator | None = None,
    reduction: Literal["mean", "batchmean", "sum"] = "mean",
) -> Tensor:
    """Cross-entropy of a small batch, masked by a draw (Eq. 2 and 3), with as few calls as possible.

    `keep` has the keep probabilities of negatives and of positives, (C,) each. The histogram is added to
    `counts` (2, C, bins) unless that is None.

    >>> logits, targets = torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 0.0]])
    >>> small_masked_cross_entropy(logits, targets, (torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0])))
    tensor(0.3466)
    """
    if counts is not None:
        counts += histogram(logits.detach().sigmoid(), targets, counts.shape[-1])
    mask = _draw_small(keep, targets, generator)
    if reduction == "mean":
        return F.binary_cross_entropy_with_logits(logits, targets, weight=mask)
    total = F.binary_cross_entropy_with_logits(logits, targets, weight=mask, reduction="sum")
    return total if reduction == "sum" else total / logits.shape[0]


class _MaskedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        targets: Tensor,
        keep: Tensor,
        counts: Tensor | None,
        generator: torch.Generator | None,
        scale: float,
    ) -> Tensor:
        if logits.numel() <= _BLOCK:
            total, gradient = _masked_block(logits, targets, keep, counts, generator)
        else:
            gradient = torch.empty_like(logits)
            total = torch.zeros((), dtype=torch.float32, device="cpu")
            for block in _blocks(*logits.shape):
                columns = block[1]
                part, gradient[block] = _masked_block(
                    logits[block],
                    targets[block],
                    keep[:, columns],
                    None if counts is None else counts[:, columns],
                    generator,
                )
                total += part
        ctx.save_for_backward(logits, targets, gradient)
        ctx.scale = scale
        return total.mul_(scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        logits, targets, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives
            gradient = (logits.sigmoid() - targets) * (gradient != 0)
        return gradient * (grads[0] * ctx.scale), None, None, None, None, None


def _masked_block(
    logits: Tensor, targets: Tensor, keep: Tensor, counts: Tensor | None, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """The summed loss of a block and its gradient."""
    probabilities = logits.sigmoid()
    if counts is not None:
        counts += histogram(probabilities, targets, counts.shape[-1])
    gradient = probabilities.sub_(targets).mul_(draw(keep, targets, generator))
    # For targets of 0 and 1, cross-entropy is −log max(p, 1 − p), plus |x| if p is on the wrong side of ½:
    # exactly then p − y rounds to ±1, with the sign of x. Both terms are 0 for masked labels.
    wrong = gradient.round()
    distance = logits.flatten().dot(wrong.flatten())
    return distance - _sum_of_logs(1 - wrong.sub_(gradient).abs_()), gradient


def _sum_of_logs(values: Tensor) -> Tensor:
    """Sum of the logarithms of values from ½ to 1, with one logarithm per product of 64."""
    values = values.flatten()
    number = len(values) // _FACTORS * _FACTORS
    total = values[:number].view(_FACTORS, -1).prod(dim=0).log_().sum()
    return total if number == len(values) else total + values[number:].log_().sum()


def _blocks(num_rows: int, num_classes: int) -> Iterator[tuple[slice, slice]]:
    """Slices of a batch with about `_BLOCK` labels each: some classes of all rows, or some rows."""
    if num_classes > num_rows:
        width = max(64, _BLOCK // num_rows)
        yield from ((slice(None), slice(start, start + width)) for start in range(0, num_classes, width))
    else:
        height = max(64, _BLOCK // num_classes)
        yield from ((slice(start, start + height), slice(None)) for start in range(0, num_rows, height))
