"""The words of the method grammar, each a frozen dataclass whose fields are the word's options.

An option that is None was not named: the recipe's default holds, and where the recipe is silent that of the
class that the word stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tailmask.errors import UserError

__all__ = [
    "ASL",
    "BCE",
    "DB",
    "LDAM",
    "WORDS",
    "ClassAware",
    "ClassBalance",
    "Deferral",
    "Focal",
    "Hill",
    "Loss",
    "Masking",
    "Part",
    "Sampling",
    "Undersample",
]


def _check(holds: bool, option: str, expected: str, value: object) -> None:
    if not holds:
        raise UserError(f"the option {option} must be {expected}, got {value}")


@dataclass(frozen=True)
class Masking:
    """`plm`: mask labels with `PartialLabelMasking`."""

    rate: float | None = None  # λ
    init: Literal["class", "mean", "min", "max"] | None = None
    bins: int | None = None  # τ
    range: tuple[float, float] | None = None
    expected: bool | None = None
    adapt: Literal["divergence", "rate"] | None = None
    warmup: int | None = None
    statistics: Literal["training", "validation"] | None = None

    def __post_init__(self) -> None:
        _check(self.rate is None or self.rate >= 0, "rate", "0 or more", self.rate)
        _check(self.warmup is None or self.warmup >= 0, "warmup", "0 or more", self.warmup)
        if self.bins is not None:
            even = self.adapt != "rate" or self.bins % 2 == 0
            _check(self.bins >= 2 and even, "bins", "2 or more, and even with adapt=rate", self.bins)
        if self.range is not None:
            low, high = self.range
            _check(0 <= low < high, "range", "low..high with 0 <= low < high", f"{low}..{high}")


@dataclass(frozen=True)
class BCE:
    """`bce`: binary cross-entropy, with positives weighted by (negatives / positives)^pos_power."""

    pos_power: float | None = None

    def __post_init__(self) -> None:
        _check(self.pos_power is None or self.pos_power >= 0, "pos_power", "0 or more", self.pos_power)


@dataclass(frozen=True)
class Focal:
    """`focal`: the focal loss (Lin et al. 2017)."""

    gamma: float | None = None
    alpha: float | None = None

    def __post_init__(self) -> None:
        _check(self.gamma is None or self.gamma >= 0, "gamma", "0 or more", self.gamma)
        _check(self.alpha is None or 0 <= self.alpha <= 1, "alpha", "from 0 to 1", self.alpha)


@dataclass(frozen=True)
class ASL:
    """`asl`: the asymmetric loss (Ridnik et al. 2021)."""

    gamma_neg: float | None = None
    gamma_pos: float | None = None
    clip: float | None = None

    def __post_init__(self) -> None:
        _check(self.gamma_neg is None or self.gamma_neg >= 0, "gamma_neg", "0 or more", self.gamma_neg)
        _check(self.gamma_pos is None or self.gamma_pos >= 0, "gamma_pos", "0 or more", self.gamma_pos)
        _check(self.clip is None or 0 <= self.clip < 1, "clip", "from 0 to below 1", self.clip)


@dataclass(frozen=True)
class Hill:
    """`hill`: the Hill loss (Zhang et al. 2021)."""

    gamma: float | None = None
    margin: float | None = None

    def __post_init__(self) -> None:
        _check(self.gamma is None or self.gamma >= 0, "gamma", "0 or more", self.gamma)


@dataclass(frozen=True)
class DB:
    """`db`: the distribution-balanced loss (Wu et al. 2020)."""

    alpha: float | None = None
    beta: float | None = None
    mu: float | None = None
    neg_scale: float | None = None
    init_bias: float | None = None
    gamma: float | None = None

    def __post_init__(self) -> None:
        _check(self.neg_scale is None or self.neg_scale > 0, "neg_scale", "above 0", self.neg_scale)
        _check(self.gamma is None or self.gamma >= 0, "gamma", "0 or more", self.gamma)


@dataclass(frozen=True)
class LDAM:
    """`ldam`: label-distribution-aware margins, softmax form (Cao et al. 2019); one label a sample."""

    max_margin: float | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        _check(self.max_margin is None or self.max_margin >= 0, "max_margin", "0 or more", self.max_margin)
        _check(self.scale is None or self.scale > 0, "scale", "above 0", self.scale)


@dataclass(frozen=True)
class ClassBalance:
    """`cb`: class-balanced weights (Cui et al. 2019); one a class, or one a sample where it has one label."""

    beta: float | None = None
    per: Literal["class", "sample"] | None = None

    def __post_init__(self) -> None:
        _check(self.beta is None or 0 <= self.beta < 1, "beta", "from 0 to below 1", self.beta)


@dataclass(frozen=True)
class Undersample:
    """`undersample`: the paper's per-epoch undersampling, up to `samples` samples of each class."""

    samples: int | None = None

    def __post_init__(self) -> None:
        _check(self.samples is None or self.samples >= 1, "samples", "1 or more", self.samples)


@dataclass(frozen=True)
class ClassAware:
    """`classaware`: draw a class, then a sample of it (Shen et al. 2016)."""


@dataclass(frozen=True)
class Deferral:
    """`drw`: class-balanced weights that begin after a share `start` of the epochs (Cao et al. 2019)."""

    start: float | None = None

    def __post_init__(self) -> None:
        _check(self.start is None or 0 <= self.start < 1, "start", "from 0 to below 1", self.start)


Loss: TypeAlias = BCE | Focal | ASL | Hill | DB | LDAM
Sampling: TypeAlias = Undersample | ClassAware
Part: TypeAlias = Masking | Loss | ClassBalance | Sampling | Deferral

WORDS: dict[str, type[Part]] = {
    "plm": Masking,
    "bce": BCE,
    "focal": Focal,
    "asl": ASL,
    "hill": Hill,
    "db": DB,
    "ldam": LDAM,
    "cb": ClassBalance,
    "undersample": Undersample,
    "classaware": ClassAware,
    "drw": Deferral,
}
