"""The criterion's arguments, each checked in one sentence: what moves the ratios, and where they start."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sized
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from tailmask import functional
from tailmask.errors import listing, nearest
from tailmask.targets import as_tensor

__all__ = [
    "GAPS",
    "Gap",
    "check_adapt",
    "check_epochs",
    "read_bins",
    "read_classes",
    "read_initial_ratio",
    "read_range",
    "read_rate",
    "read_warmup",
]

Gap = Callable[[Tensor], Tensor]  # counts (2, C, num_bins) → D_c (C,)

GAPS: dict[str, Gap] = {"divergence": functional.divergence_gap, "rate": functional.rate_gap}

# Where the length of training is known, the update by rates leaves the ratios for the first half of it, so
# that the network learns from all labels. In the second half it can move their logarithms by 9 in all, in a
# shorter training by less, as steps above 0.5 may overshoot, but by 3.5, as long as no step is above 1.
_WAY, _SHORT_WAY = 9.0, 3.5
_LARGE_STEP, _LARGEST_STEP = 0.5, 1.0

_INITIAL_RATIOS = ("class", "mean", "min", "max")


def check_adapt(adapt: Any) -> None:
    """Refuse what is neither the name of an update nor a function.

    >>> check_adapt("rate")
    """
    if not callable(adapt) and str(adapt) not in GAPS:
        raise ValueError(f"adapt is not {adapt!r}: {nearest(str(adapt), GAPS)}, or pass a function")


def check_epochs(epochs: Any) -> None:
    """Refuse what is no length of a training.

    >>> check_epochs(60)
    """
    if epochs is not None and (not isinstance(epochs, Integral) or epochs < 1):
        raise ValueError(f"epochs must be a whole number of 1 or more, got {epochs!r}")


def read_rate(rate: Any, adapt: Any, epochs: int | None = None) -> float:
    """λ of Eq. 7, by default the update's own, which for `adapt="rate"` depends on the number of epochs.

    >>> read_rate(None, "divergence"), read_rate(None, "rate"), read_rate(torch.tensor(0.5), "rate")
    (0.01, 0.1, 0.5)
    >>> [read_rate(None, "rate", epochs) for epochs in (5, 10, 20, 60, 90)]
    [1.0, 0.7, 0.5, 0.3, 0.2]
    """
    if rate is None:
        if adapt != "rate":
            return 0.01
        if epochs is None:
            return 0.1
        moves = epochs / 2
        step = min(_LARGEST_STEP, _WAY / moves, max(_LARGE_STEP, _SHORT_WAY / moves))
        return float(f"{step:.6g}")
    number = _number(rate)
    if not 0 <= number < math.inf:
        raise ValueError(f"rate must be 0 or more and finite, got {rate!r}")
    return number


def read_warmup(warmup: Any, adapt: Any, epochs: int | None = None) -> int:
    """How many of the first steps leave the ratios, by default the update's own number.

    >>> read_warmup(None, "divergence"), read_warmup(None, "rate"), read_warmup(None, "rate", epochs=60)
    (0, 5, 30)
    """
    if warmup is None:
        if adapt != "rate":
            return 0
        return 5 if epochs is None else max(1, epochs // 2)
    if not isinstance(warmup, Integral) or warmup < 0:
        raise ValueError(f"warmup must be a whole number of 0 or more, got {warmup!r}")
    return int(warmup)


def read_bins(num_bins: Any, adapt: Any) -> int:
    """τ, which `rate_gap` needs to be even.

    >>> read_bins(10, "rate")
    10
    """
    if not isinstance(num_bins, Integral) or num_bins < 2 or (adapt == "rate" and num_bins % 2):
        raise ValueError(
            f'num_bins must be a whole number of 2 or more, and even for adapt="rate", got {num_bins!r}'
        )
    return int(num_bins)


def read_range(ratio_range: Any) -> tuple[float, float] | None:
    """Lowest and highest target ratio.

    >>> read_range([0, 1])
    (0.0, 1.0)
    """
    if ratio_range is None:
        return None
    bounds = [_number(bound) for bound in ratio_range] if isinstance(ratio_range, Iterable) else []
    if len(bounds) != 2 or not 0 <= bounds[0] < bounds[1]:
        raise ValueError(f"ratio_range must be (low, high) with 0 <= low < high, got {ratio_range!r}")
    return bounds[0], bounds[1]


def read_classes(classes: Any, num_classes: int) -> tuple[str, ...] | None:
    """Names of the classes.

    >>> read_classes(["cat", "dog"], 2)
    ('cat', 'dog')
    """
    if classes is None:
        return None
    if isinstance(classes, str) or not (isinstance(classes, Iterable) and isinstance(classes, Sized)):
        raise ValueError(f"classes must be a list of {num_classes} names, got {classes!r}")
    if len(classes) != num_classes:
        raise ValueError(f"classes must name {num_classes} classes, got {len(classes)} names")
    return tuple(classes)


def read_initial_ratio(choice: Any, class_ratio: Tensor, complete: Tensor) -> Tensor:
    """Ratios r̄₁ (C,) to start from; a class without both labels starts from its own.

    >>> ratio, complete = torch.tensor([0.25, 0.75, 1e-13]), torch.tensor([True, True, False])
    >>> read_initial_ratio("mean", ratio, complete)
    tensor([5.0000e-01, 5.0000e-01, 1.0000e-13])
    """
    if not isinstance(choice, str):
        chosen = _read_ratios(choice, len(class_ratio)).to(class_ratio.device)
    elif choice not in _INITIAL_RATIOS:
        raise ValueError(f"initial_ratio is not {choice!r}: {nearest(choice, _INITIAL_RATIOS)}")
    elif choice == "class" or not complete.any():
        chosen = class_ratio
    else:
        chosen = getattr(class_ratio[complete], choice)().expand_as(class_ratio)
    return torch.where(complete, chosen, class_ratio)


def _read_ratios(values: Any, num_classes: int) -> Tensor:
    expected = f"{', '.join(_INITIAL_RATIOS)} or numbers of shape ({num_classes},)"
    try:
        ratio = as_tensor(values).to(torch.float32)
    except ValueError:
        raise ValueError(f"initial_ratio must be {expected}, got {values!r}") from None
    if ratio.shape != (num_classes,):
        raise ValueError(f"initial_ratio must be {expected}, got shape {tuple(ratio.shape)}")
    strange = ratio[~(ratio.isfinite() & (ratio > 0))].tolist()
    if strange:
        values = listing(f"{value:g}" for value in strange)
        raise ValueError(f"initial_ratio must be finite and above 0, got {values}")
    return ratio


def _number(value: Any) -> float:
    """A real number, or a tensor of one, as a float; NaN, which lies in no range, for anything else."""
    is_number = isinstance(value, Real) or (isinstance(value, Tensor) and value.ndim == 0)
    return float(value) if is_number else math.nan
