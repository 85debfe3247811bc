"""Weights of classes (Cui et al. 2019), and of samples through their classes."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from tailmask._util.label_values import as_tensor, read_indices
from tailmask._util.messages import listing
from tailmask._util.registry import Option, word

__all__ = [
    "as_float32",
    "class_balance",
    "class_balanced_weights",
    "class_vector",
    "over_classes",
    "positive_weights",
    "sample_weights",
]


def class_balanced_weights(positives: Any, beta: float = 0.9999) -> Tensor:
    """Weight of each class by its effective number of samples, ∝ (1 − β) / (1 − βⁿ) (Cui et al. 2019).

    The weights sum to C. β = 0 gives 1 for all classes; for β towards 1 they become the inverse number of
    samples. A class without positives has no effective number: it gets 1, and the weights of the others sum
    to the number of the others.

    As the `weight` of an elementwise loss they are the multi-label form, one weight per class. With
    `per_sample=True`, or through `sample_weights`, they are the single-label form, one weight per sample.

    >>> class_balanced_weights([5000, 500, 50, 0])
    tensor([0.0341, 0.2752, 2.6907, 1.0000])
    """
    if not 0 <= beta < 1:
        raise ValueError(f"beta must lie in [0, 1), got {beta:g}")
    number = class_vector(positives, name="positives").double()
    present = number > 0
    weights = (1 - beta) / (1 - beta**number)  # (C,)
    total = weights.where(present, 0.0).sum()
    return (weights * present.sum() / total).where(present, 1.0).float()


@word("cb", kind="weighting", summary="weights by the effective number of samples")
def class_balance(
    positives: Any,
    *,
    beta: Annotated[float, Option(minimum=0, below=1)] = 0.9999,
    per_sample: Annotated[bool | None, Option()] = None,
    single_label: bool = False,
) -> tuple[Tensor, bool]:
    """Class-balanced weights (Cui et al. 2019), one for each class or one for each sample.

    The weight of a class follows from its effective number of samples, (1 − β) / (1 − βⁿ). The weights sum to
    the number of classes. In Python it returns the weights, and True if they are per sample.

    >>> class_balance([5000, 500, 50, 0], single_label=True)
    (tensor([0.0341, 0.2752, 2.6907, 1.0000]), True)

    Args:
        positives: Positives of each class in the training data, shape (C,).
        beta: β; 0.9 in the recipe of CIFAR-100-LT. Towards 1 the weights become the inverse number of
            samples.
        per_sample: True gives all terms of a sample the weight of its label, the default if each sample has
            one label. False gives each term the weight of its class.
        single_label: True if each sample has one label.

    Mind:
        A weight per class scales positives and negatives equally: it does not change their ratio.

    Paper:
        Cui, Jia, Lin, Song, Belongie, [Class-Balanced Loss Based on Effective Number of
        Samples](https://arxiv.org/abs/1901.05555), CVPR 2019
    """
    return class_balanced_weights(positives, beta), single_label if per_sample is None else per_sample


def positive_weights(positives: Any, negatives: Any, *, power: float = 1.0) -> Tensor:
    """Weight of each class's positives, (negatives / positives)^power: the usual `pos_weight`.

    A class without positives, or without negatives, gets 1.

    >>> positive_weights([100, 300, 0], [300, 100, 400])
    tensor([3.0000, 0.3333, 1.0000])
    """
    present, absent = class_vector(positives, name="positives"), class_vector(negatives, name="negatives")
    if len(present) != len(absent):
        raise ValueError(
            "positives and negatives must have the same number of classes, "
            f"got {len(present)} and {len(absent)}"
        )
    ratio = absent / present
    return (ratio**power).where(ratio.isfinite() & (ratio > 0), 1.0)


def sample_weights(targets: Tensor, class_weights: Tensor) -> Tensor:
    """Weight of each sample, by its label: the single-label form of class weights (Cui et al. 2019).

    `targets` are class indices (N,) or rows (N, C). A row with several labels or soft labels gets the mean
    weight of its labels; a row without a known label gets 1.

    >>> sample_weights(torch.tensor([2, 0, -1]), torch.tensor([0.5, 1.0, 4.0]))
    tensor([4.0000, 0.5000, 1.0000])
    >>> sample_weights(torch.tensor([[0, 0, 1], [1, 0, 1]]), torch.tensor([0.5, 1.0, 4.0]))
    tensor([4.0000, 2.2500])
    """
    if targets.ndim == 1:
        indices, _ = read_indices(targets, len(class_weights))
        return class_weights[indices.clamp(min=0)].where(indices >= 0, 1.0)
    positives = targets.where(targets > 0, 0).to(class_weights.dtype)  # (N, C)
    # No matrix product: autocast would round it to half precision.
    total = (positives * over_classes(class_weights, targets, name="class_weights")).sum(dim=1)
    number = positives.sum(dim=1)
    return torch.where(number > 0, total / number, 1.0)


def as_float32(values: Any, *, name: str) -> Tensor:
    """A copy of the values in float32; values that are not a tensor go to torch's default device."""
    device = values.device if isinstance(values, Tensor) else torch.get_default_device()
    tensor = as_tensor(values, name=name, hint="give a number for each class")
    return tensor.to(device, torch.float32, copy=True)


def class_vector(values: Any, *, name: str) -> Tensor:
    """A copy of the values in float32; they must have shape (C,), be finite and not negative."""
    vector = as_float32(values, name=name)
    if vector.ndim != 1:
        raise ValueError(f"{name} must have shape (C,), got {tuple(vector.shape)}")
    strange = vector[~(vector.isfinite() & (vector >= 0))].tolist()
    if strange:
        raise ValueError(f"{name} must be finite numbers of 0 or more, got {listing(strange)}")
    return vector


def over_classes(vector: Tensor, like: Tensor, *, name: str) -> Tensor:
    """A vector (C,) in a shape that broadcasts along axis 1 of `like`."""
    if len(vector) != like.shape[1]:
        raise ValueError(
            f"{name} must have {like.shape[1]} classes as the targets have, got {len(vector)}: "
            "did it come from another data set?"
        )
    return vector.view(-1, *[1] * (like.ndim - 2))
