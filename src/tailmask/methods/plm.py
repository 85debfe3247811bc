"""The word `plm`: Partial Label Masking by its options in a method's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from tailmask._util.reduction import Reduction
from tailmask._util.registry import Option, word
from tailmask.masking import PartialLabelMasking

__all__ = ["masked"]


# `linear` weighs labels, `boost` draws masks, and both hold out rows of their own.
_NETWORKS = dict.fromkeys(("linear", "boost"), "it is an option for networks")


def _check(options: Mapping[str, Any]) -> None:
    masked(torch.ones(2, 3), epochs=100, **options)  # the criterion checks which options go together


@word(
    "plm",
    kind="masking",
    implies="bce",
    summary="masks labels: each class trains with its own ratio of positives to negatives",
    check=_check,
)
def masked(
    class_counts: Tensor,
    *,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    epochs: int | None = None,
    classes: Sequence[str] | None = None,
    reduction: Reduction = "batchmean",
    rate: Annotated[float | None, Option(minimum=0, default_goes_with="adapt")] = None,
    initial_ratio: Annotated[Literal["class", "mean", "min", "max"], Option()] = "class",
    num_bins: Annotated[int, Option(minimum=2)] = 10,
    ratio_range: Annotated[tuple[float, float] | None, Option()] = None,
    expected: Annotated[bool, Option(not_with=_NETWORKS)] = False,
    adapt: Annotated[Literal["divergence", "prevalence"], Option()] = "divergence",
    warmup: Annotated[int | None, Option(minimum=0, default_goes_with="adapt")] = None,
    statistics: Annotated[Literal["training", "validation"] | None, Option(not_with=_NETWORKS)] = None,
    hold: Annotated[float | None, Option(above=0, not_with=_NETWORKS)] = None,
    damp: Annotated[bool, Option(not_with=_NETWORKS)] = False,
) -> PartialLabelMasking:
    """Partial Label Masking (Duarte et al. 2021): leaves labels out of the loss at random.

    Each class is trained at its own ratio of positives to negatives. The ratios are adapted after each epoch.
    See [the method](method.md).

    >>> masked(torch.tensor([[40, 49], [10, 1]]), rate=0.05).rate
    0.05

    Args:
        class_counts: Negatives and positives of each class in the training data, shape (2, C).
        loss: Elementwise loss; None is binary cross-entropy.
        epochs: Length of training.
        classes: Names of the classes, for warnings.
        reduction: As in `PartialLabelMasking`.
        rate: λ, by default 0.01. The recipes of `digits` and of fine-tuning have 0.05, the one of CIFAR-10-LT
            has 1. With `adapt=prevalence`, λ [follows from the number of epochs](training.md#fields).
        initial_ratio: The ratios to start from: each class's own, or the mean, minimum or maximum of them
            all.
        num_bins: τ, the number of bins of the outputs.
        ratio_range: Lowest and highest ratio, as in `0..1`, which the paper uses on MSCOCO.
        expected: Weigh labels by their keep probability instead of drawing.
        adapt: What moves the ratios: `divergence` is the paper's, `prevalence` the recommended one.
        warmup: How many of the first updates are skipped. By default 0; half of the epochs with
            `adapt=prevalence`.
        statistics: Whether outputs on the training or the validation split move the ratios. By default those
            of `training`; of `validation` with `adapt=prevalence` if there is a validation split (the
            paper's sets have none unless you add `--validation 0.1`).
        hold: When the ratios stop moving: a share of training below 1, or a number of epochs. `hold=0.8`
            holds them for the last fifth of training, which on CIFAR begins when the learning rate falls.
            By default they never stop.
        damp: Whether λ falls with the learning rate: λ of an epoch is `rate` times the learning rate at the
            epoch's end over its base.

    Mind:
        λ · epochs sets how far ratios drift under `divergence`. Needs a loss with one term per label, so not
        LDAM.

    Paper:
        Duarte, Rawat, Shah, [PLM: Partial Label Masking for Imbalanced Multi-label
        Classification](https://arxiv.org/abs/2105.10782), CVPR Workshops 2021
    """
    return PartialLabelMasking(
        class_counts,
        loss=loss,
        epochs=epochs,
        classes=classes,
        reduction=reduction,
        rate=rate,
        initial_ratio=initial_ratio,
        num_bins=num_bins,
        ratio_range=ratio_range,
        expected=expected,
        adapt=adapt,
        warmup=warmup,
        statistics=statistics,
        hold=hold,
        damp=damp,
    )
