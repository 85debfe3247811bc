"""The options of a criterion, checked once and then fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor

from tailmask import functional
from tailmask._util.label_values import as_tensor
from tailmask._util.messages import listing, nearest
from tailmask._util.reduction import Reduction, check_reduction
from tailmask.masking.schedule import number

__all__ = ["GAPS", "Gap", "InitialRatio", "Options", "StatisticsSource", "check_loss", "check_statistics"]

Gap = Callable[[Tensor], Tensor]  # counts (2, C, num_bins) → D_c (C,)
StatisticsSource = Literal["training", "validation"]
InitialRatio = Literal["class", "mean", "min", "max"]

GAPS: dict[str, Gap] = {"divergence": functional.divergence_gap, "prevalence": functional.prevalence_gap}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The checked options of `PartialLabelMasking`, whose docstring explains each field.

    >>> Options.read(2, adapt="prevalence", classes=["cat", "dog"]).statistics
    'validation'
    """

    num_classes: int
    adapt: str | Gap
    num_bins: int
    initial_ratio: InitialRatio | Tensor  # numbers are (C,) float32
    ratio_range: tuple[float, float] | None
    classes: tuple[str, ...] | None
    statistics: StatisticsSource
    expected: bool
    reduction: Reduction
    validate: bool

    @classmethod
    def read(
        cls,
        num_classes: int,
        *,
        adapt: Any = "divergence",
        num_bins: Any = 10,
        initial_ratio: Any = "class",
        ratio_range: Any = None,
        classes: Any = None,
        statistics: Any = None,
        expected: bool = False,
        reduction: Any = "mean",
        validate: bool = False,
    ) -> Self:
        """The options from a user's values; raises a ValueError for the first one that is not allowed."""
        if not callable(adapt) and str(adapt) not in GAPS:
            raise ValueError(f"adapt cannot be {adapt!r}: {nearest(str(adapt), GAPS)}, or pass a function")
        by_prevalence = isinstance(adapt, str) and adapt == "prevalence"
        if not isinstance(num_bins, Integral) or num_bins < 2 or (by_prevalence and num_bins % 2):
            raise ValueError(
                'num_bins must be a whole number of 2 or more, and even for adapt="prevalence", '
                f"got {num_bins!r}"
            )
        check_reduction(reduction)
        if statistics is None:
            statistics = "validation" if by_prevalence else "training"
        check_statistics(statistics)
        return cls(
            num_classes=num_classes,
            adapt=adapt,
            num_bins=int(num_bins),
            initial_ratio=_read_initial_ratio(initial_ratio, num_classes),
            ratio_range=_read_range(ratio_range),
            classes=_read_classes(classes, num_classes),
            statistics=statistics,
            expected=expected,
            reduction=reduction,
            validate=validate,
        )

    @property
    def gap(self) -> Gap:
        """The function that computes each class's gap from the counts."""
        return GAPS[self.adapt] if isinstance(self.adapt, str) else self.adapt

    @property
    def adapt_name(self) -> str:
        """The name of the update."""
        return self.adapt if isinstance(self.adapt, str) else getattr(self.adapt, "__name__", "custom")

    def name_classes(self, indices: Iterable[int]) -> str:
        """Classes as text, by name if the names are known, else by index.

        >>> Options.read(2, classes=["cat", "dog"]).name_classes([1])
        'dog'
        """
        return listing(indices if self.classes is None else [self.classes[index] for index in indices])


def check_statistics(statistics: Any) -> None:
    """Raise a ValueError unless `statistics` is "training" or "validation".

    >>> check_statistics("testing")
    Traceback (most recent call last):
    ValueError: statistics cannot be 'testing': ...
    """
    if statistics not in get_args(StatisticsSource):
        raise ValueError(
            f"statistics cannot be {statistics!r}: {nearest(str(statistics), get_args(StatisticsSource))}"
        )


def check_loss(loss: Any) -> None:
    """Raise a ValueError for a loss that cannot be masked label by label.

    >>> check_loss(torch.nn.BCEWithLogitsLoss(reduction="none"))
    """
    if loss is not None and (isinstance(loss, type) or not callable(loss)):
        raise ValueError(
            "loss must be a callable, (logits, targets) → (N, C), "
            f'such as tailmask.losses.FocalLoss(reduction="none"), got {loss!r}'
        )
    if getattr(loss, "reduction", "none") != "none":
        raise ValueError('the loss must return one value per label: pass reduction="none" to it')


def _read_range(ratio_range: Any) -> tuple[float, float] | None:
    if ratio_range is None:
        return None
    bounds = [number(bound) for bound in ratio_range] if isinstance(ratio_range, Iterable) else []
    if len(bounds) != 2 or not 0 <= bounds[0] < bounds[1]:
        raise ValueError(f"ratio_range must be (low, high) with 0 <= low < high, got {ratio_range!r}")
    return bounds[0], bounds[1]


def _read_classes(classes: Any, num_classes: int) -> tuple[str, ...] | None:
    if classes is None:
        return None
    if isinstance(classes, str) or not (isinstance(classes, Iterable) and isinstance(classes, Sized)):
        raise ValueError(f"classes must be a list of {num_classes} names, got {classes!r}")
    if len(classes) != num_classes:
        raise ValueError(f"classes must name {num_classes} classes, got {len(classes)} names")
    return tuple(classes)


def _read_initial_ratio(choice: Any, num_classes: int) -> Any:
    names = get_args(InitialRatio)
    if isinstance(choice, str):
        if choice not in names:
            raise ValueError(f"initial_ratio cannot be {choice!r}: {nearest(choice, names)}")
        return choice
    expected = f"{', '.join(names)} or numbers of shape ({num_classes},)"
    try:
        ratio = as_tensor(choice).to(torch.float32)
    except ValueError:
        raise ValueError(f"initial_ratio must be {expected}, got {choice!r}") from None
    if ratio.shape != (num_classes,):
        raise ValueError(f"initial_ratio must be {expected}, got shape {tuple(ratio.shape)}")
    strange = ratio[~(ratio.isfinite() & (ratio > 0))].tolist()
    if strange:
        values = listing(f"{value:g}" for value in strange)
        raise ValueError(f"initial_ratio must be finite and above 0, got {values}")
    return ratio
