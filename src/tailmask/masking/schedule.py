"""The schedule of λ: when the ratios start and stop moving, and how far each update moves them."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

__all__ = ["Schedule", "number"]

# The update by prevalence, if the number of epochs is known: it does nothing in the first half of training,
# so the network learns from all labels. In the second half it can move the logarithm of a ratio by 9 in
# total. A short training would need large steps for that, and large steps may overshoot. So a step is at
# most 0.5, unless the total would be below 3.5. Then a step is larger, but at most 1.
_WAY, _SHORT_WAY = 9.0, 3.5
_LARGE_STEP, _LARGEST_STEP = 0.5, 1.0


@dataclass(frozen=True)
class Schedule:
    """λ of Eq. 7 at each update: 0 for the first `warmup` updates and from update `hold` on, else `rate`.

    With `damp`, λ is multiplied by the learning rate's factor.

    >>> schedule = Schedule.of("prevalence", epochs=8)
    >>> [schedule.rate_at(update) for update in range(8)]
    [0.0, 0.0, 0.0, 0.0, 0.875, 0.875, 0.875, 0.875]
    >>> schedule = Schedule.of("divergence", rate=1.0, hold=0.8, epochs=5)
    >>> [schedule.rate_at(update) for update in range(5)]
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """

    rate: float
    warmup: int = 0
    hold: int | None = None
    damp: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.rate < math.inf:
            raise ValueError(f"rate must be 0 or more and finite, got {self.rate!r}")
        if self.warmup < 0:
            raise ValueError(f"warmup must be 0 or more, got {self.warmup!r}")

    @classmethod
    def of(
        cls,
        adapt: Any,
        *,
        rate: Any = None,
        warmup: Any = None,
        hold: Any = None,
        damp: bool = False,
        epochs: Any = None,
    ) -> Self:
        """The schedule of an update; values that are None get the update's default.

        For "divergence" and functions, the default is a rate of 0.01 and no warm-up. For "prevalence" it
        depends on the number of epochs: a warm-up of half of them, and a rate of 18 / epochs, at most 0.5
        (below 14 epochs 7 / epochs, at most 1). If the number is not known, it is a warm-up of 5 and a rate
        of 0.1. A `hold` below 1 is a share of the epochs.

        >>> Schedule.of("divergence"), Schedule.of("prevalence").warmup
        (Schedule(rate=0.01, warmup=0, hold=None, damp=False), 5)
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
        return cls(rate, warmup or 0, _read_hold(hold, epochs), bool(damp))

    @property
    def is_idle(self) -> bool:
        """True if no update ever moves the ratios, because `hold` is reached before the warm-up ends."""
        return self.hold is not None and self.hold <= self.warmup

    def rate_at(self, update: int, *, lr_factor: float | None = None) -> float:
        """λ of an update; the first is number 0.

        `lr_factor` is the learning rate as a share of its base; only `damp` needs it.

        >>> Schedule(0.5, warmup=2).rate_at(2)
        0.5
        >>> Schedule(0.5, damp=True).rate_at(2, lr_factor=0.1)
        0.05
        """
        if self.damp and (lr_factor is None or not 0 <= lr_factor < math.inf):
            raise ValueError(
                "damp=True needs the learning rate as a share of its base, 0 or more, "
                f"got {lr_factor!r}: call step(lr_factor=lr / base_lr)"
            )
        if update < self.warmup or (self.hold is not None and update >= self.hold):
            return 0.0
        return self.rate if not self.damp or lr_factor is None else self.rate * lr_factor


def _rate_for(epochs: int | None) -> float:
    if epochs is None:
        return 0.1
    moves = epochs / 2
    step = min(_LARGEST_STEP, _WAY / moves, max(_LARGE_STEP, _SHORT_WAY / moves))
    return float(f"{step:.6g}")


def _read_hold(hold: Any, epochs: int | None) -> int | None:
    """The first update that no longer changes the ratios; at least 1."""
    if hold is None:
        return None
    read = number(hold)
    if not (0 < read < 1 or (read >= 1 and read.is_integer())):
        raise ValueError(
            f"hold must be a share of training below 1, or a whole number of epochs, got {hold!r}"
        )
    if read >= 1:
        return int(read)
    if epochs is None:
        raise ValueError(f"hold={read:g} is a share of training: pass epochs, or a whole number as hold")
    return max(1, round(read * epochs))


def _whole(value: Any, name: str, *, least: int) -> int:
    if not isinstance(value, numbers.Integral) or int(value) < least:
        raise ValueError(f"{name} must be a whole number of {least} or more, got {value!r}")
    return int(value)


def number(value: Any) -> float:
    """A real number, or a tensor with one, as a float; NaN, which no range contains, for anything else.

    >>> number(Tensor([2.0])[0]), number("2")
    (2.0, nan)
    """
    is_number = isinstance(value, numbers.Real) or (isinstance(value, Tensor) and value.ndim == 0)
    return float(value) if is_number else math.nan
