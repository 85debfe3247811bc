"""Class ratios, keep probabilities and gaps of a criterion, from its counts and options."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from tailmask import functional
from tailmask.masking.criterion_options import Options

__all__ = [
    "RatioUpdate",
    "class_ratio",
    "clip",
    "gaps",
    "has_both_labels",
    "initial_ratio",
    "keep",
    "lacks_target",
    "prior_shift",
]


class RatioUpdate(NamedTuple):
    """The result of one `PartialLabelMasking.step`, to log and to plot; tensors on the criterion's device."""

    target_ratio: Tensor  # (C,) r̄ of the next epoch
    gap: Tensor  # (C,) D_c, the signal that moved the ratios
    divergence: Tensor  # (2, C) D⁻ and D⁺ before normalisation; NaN if a label was not seen
    keep: Tensor  # (2, C) share of negatives and of positives that the next epoch keeps


def class_ratio(class_counts: Tensor) -> Tensor:
    """Ratio r_c of positives to negatives in the data, (C,).

    >>> import torch
    >>> class_ratio(torch.tensor([[40, 49], [10, 1]]))
    tensor([0.2500, 0.0204])
    """
    return functional.class_ratio(positives=class_counts[1], negatives=class_counts[0])


def has_both_labels(class_counts: Tensor) -> Tensor:
    """True for each class (C,) with positives and negatives; the others are neither masked nor adapted.

    >>> import torch
    >>> has_both_labels(torch.tensor([[40, 50], [10, 0]]))
    tensor([ True, False])
    """
    return (class_counts > 0).all(dim=0)


def lacks_target(class_counts: Tensor, target_ratio: Tensor) -> Tensor:
    """True for each class (C,) that never had both labels and so has no target ratio.

    Its target ratio is then its class ratio, the smallest or largest one allowed.

    >>> import torch
    >>> counts = torch.tensor([[40, 50], [10, 0]])
    >>> lacks_target(counts, class_ratio(counts))
    tensor([False,  True])
    """
    return ~has_both_labels(class_counts) & (target_ratio == class_ratio(class_counts))


def initial_ratio(options: Options, class_counts: Tensor) -> Tensor:
    """Initial target ratios r̄₁ (C,); a class without both labels starts from its own ratio.

    >>> import torch
    >>> counts = torch.tensor([[40, 40, 50], [10, 30, 0]])
    >>> initial_ratio(Options.read(3, initial_ratio="mean"), counts)
    tensor([5.0000e-01, 5.0000e-01, 9.3576e-14])
    """
    own, both = class_ratio(class_counts), has_both_labels(class_counts)
    choice = options.initial_ratio
    if isinstance(choice, Tensor):
        chosen = choice.to(own.device)
    elif choice == "class" or not both.any():
        chosen = own
    else:
        chosen = getattr(own[both], choice)().expand_as(own)
    return clip(options, chosen.where(both, own), class_counts)


def clip(options: Options, ratio: Tensor, class_counts: Tensor) -> Tensor:
    """Target ratios clipped to `ratio_range`, except for classes without both labels."""
    if options.ratio_range is None:
        return ratio
    return ratio.clamp(*options.ratio_range).where(has_both_labels(class_counts), ratio)


def keep(class_counts: Tensor, target_ratio: Tensor) -> Tensor:
    """Keep probabilities (2, C) of Eq. 3; 1 for classes without both labels.

    >>> import torch
    >>> keep(torch.tensor([[10, 50], [20, 0]]), torch.tensor([1.0, 1.0]))
    tensor([[1.0000, 1.0000],
            [0.5000, 1.0000]])
    """
    probability = functional.keep_probability(class_ratio(class_counts), target_ratio)
    return probability.where(has_both_labels(class_counts), 1.0)


def prior_shift(keep: Tensor) -> Tensor:
    """log(r / r̄) of each class (C,), from its keep probabilities (2, C).

    >>> import torch
    >>> prior_shift(torch.tensor([[0.5, 1.0], [1.0, 1.0]]))
    tensor([-0.6931,  0.0000])
    """
    # By Eq. 3 one of the two is r / r̄ or r̄ / r, and the other is 1.
    negatives, positives = keep.log().unbind()
    return negatives - positives


def gaps(options: Options, counts: Tensor, class_counts: Tensor) -> Tensor:
    """D_c of each class (C,) from its histograms (2, C, bins), checked; 0 for classes without both labels.

    Classes without both labels do not influence the gaps of the others either.
    """
    both = has_both_labels(class_counts)
    gap = options.gap(counts.where(both[:, None], 0))
    if gap.shape != both.shape:
        raise ValueError(
            f"adapt must return one gap per class, shape ({options.num_classes},), got {tuple(gap.shape)}"
        )
    gap = gap.where(both, 0.0)
    strange = (~gap.isfinite()).nonzero().flatten().tolist()
    if strange:
        names = options.name_classes(strange)
        raise ValueError(f"adapt must return finite gaps, got {gap[strange[0]]:g} for class {names}")
    return gap
