"""λ of each update: when the ratios begin to move, and how far an update moves them."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

__all__ = ["Schedule", "number"]

# What the update by prevalence does where the number of epochs is known: nothing in the first half of
# training, so that the network learns from all labels. In the second half it can move the logarithm of a
# ratio by 9 in all. A short training would need large steps for that, which may overshoot: there it is 3.5
# in all, as long as no step is above 1.
_WAY, _SHORT_WAY = 9.0, 3.5
_LARGE_STEP, _LARGEST_STEP = 0.5, 1.0


@dataclass(frozen=True)
class Schedule:
    """λ of Eq. 7 at each update: 0 for the first `warmup` updates, then `rate`.

    >>> schedule = Schedule.of("prevalence", epochs=8)
    >>> [schedule.rate_at(update) for update in range(8)]
    [0.0, 0.0, 0.0, 0.0, 0.875, 0.875, 0.875, 0.875]
    """

    rate: float
    warmup: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.rate < math.inf:
            raise ValueError(f"rate must be 0 or more and finite, got {self.rate!r}")
        if self.warmup < 0:
            raise ValueError(f"warmup must be 0 or more, got {self.warmup!r}")

    @classmethod
    def of(cls, adapt: Any, *, rate: Any = None, warmup: Any = None, epochs: Any = None) -> Self:
        """The schedule of an update; what is None gets the update's own default.

        For "divergence" and functions, that is a rate of 0.01 and no warm-up. For "prevalence" it depends on
        the number of epochs: a warm-up of half of them, and a rate of 18 / epochs, at most 0.5 (below 14
        epochs 7 / epochs, at most 1). Where their number is not known, it is a warm-up of 5 and a rate of
        0.1.

        >>> Schedule.of("divergence"), Schedule.of("prevalence")
        (Schedule(rate=0.01, warmup=0), Schedule(rate=0.1, warmup=5))
        >>> [Schedule.of("prevalence", epochs=epochs).rate for epochs in (5, 10, 20, 60, 90)]
        [1.0, 0.7, 0.5, 0.3, 0.2]
        """
        if epochs is not None:
            epochs = _whole(epochs, "epochs", least=1)
        by_prevalence = isinstance(adapt, str) and adapt == "prevalence"
        if rate is None:
            rate = _rate_for(epochs) if by_prevalence else 0.01
        elif math.isnan(read := number(rate)):
            raise ValueError(f"rate must be 0 or more and finite, got {rate!r}")
        else:
            rate = read
        if warmup is not None:
            warmup = _whole(warmup, "warmup", least=0)
        elif by_prevalence:
            warmup = 5 if epochs is None else max(1, epochs // 2)
        return cls(rate, warmup or 0)

    def rate_at(self, update: int) -> float:
        """λ of an update; the first is number 0.

        >>> Schedule(0.5, warmup=2).rate_at(2)
        0.5
        """
        return 0.0 if update < self.warmup else self.rate


def _rate_for(epochs: int | None) -> float:
    if epochs is None:
        return 0.1
    moves = epochs / 2
    step = min(_LARGEST_STEP, _WAY / moves, max(_LARGE_STEP, _SHORT_WAY / moves))
    return float(f"{step:.6g}")


def _whole(value: Any, name: str, *, least: int) -> int:
    if not isinstance(value, numbers.Integral) or int(value) < least:
        raise ValueError(f"{name} must be a whole number of {least} or more, got {value!r}")
    return int(value)


def number(value: Any) -> float:
    """A real number, or a tensor of one, as a float; NaN, which lies in no range, for anything else.

    >>> number(Tensor([2.0])[0]), number("2")
    (2.0, nan)
    """
    is_number = isinstance(value, numbers.Real) or (isinstance(value, Tensor) and value.ndim == 0)
    return float(value) if is_number else math.nan
