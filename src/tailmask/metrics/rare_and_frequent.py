"""Groups of rare and frequent classes, by their counts in the training data."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tailmask._util.label_values import as_tensor

__all__ = ["as_train_positives", "class_groups", "optional_groups"]

_HINT = "give the positive training samples of each class"


def class_groups(
    train_positives: Tensor | Sequence[int], *, rarest: Sequence[int] = (), frequent: Sequence[int] = ()
) -> dict[str, Tensor]:
    """Class indices of `head`, `medium` and `tail`, and of each requested `rarest_K` and `frequent_K`.

    Classes are sorted by their number of positive training samples, ties by index (the lower one counts as
    rarer). Tail and head are the rarest and the most frequent third, medium is the rest. Fixed limits (over
    100, under 20 samples) are also common, but leave groups empty on most data: no class of MSCOCO or of
    imbalanced MultiMNIST would be tail. Thirds exist from three classes on and do not change if all counts
    are scaled. With ten classes, the tail is the paper's three rarest classes. With two classes there is no
    medium; with one class there is neither head nor tail. Empty groups are left out.

    >>> class_groups(torch.tensor([50, 9, 3, 3]), rarest=(2,), frequent=(1,))
    {'rarest_2': tensor([2, 3]), 'frequent_1': tensor([0]),
     'head': tensor([0]), 'medium': tensor([3, 1]), 'tail': tensor([2])}
    """
    counts = as_tensor(train_positives, name="train_positives", hint=_HINT)
    if counts.ndim != 1:
        raise ValueError(
            f"train_positives must have shape (C,), the positive samples of each class, got "
            f"{tuple(counts.shape)}"
        )
    num_classes = len(counts)
    order = torch.argsort(counts, stable=True).cpu()  # the rarest first
    for name, sizes in (("rarest", rarest), ("frequent", frequent)):
        for size in sizes:
            if not 1 <= size <= num_classes:
                raise ValueError(
                    f"{name} must lie between 1 and {num_classes}, the number of classes, got {size}"
                )
    third = (num_classes + 1) // 3
    groups = {f"rarest_{size}": order[:size] for size in rarest}
    groups |= {f"frequent_{size}": order[num_classes - size :].flip(0) for size in frequent}
    groups["head"] = order[num_classes - third :].flip(0)
    groups["medium"] = order[third : num_classes - third]
    groups["tail"] = order[:third]
    return {name: index for name, index in groups.items() if len(index)}


def as_train_positives(train_positives: Tensor | Sequence[int] | None, num_classes: int) -> Tensor | None:
    """The training counts of `num_classes` classes (C,) as a tensor; None if they are not given.

    >>> as_train_positives([90, 10], 2)
    tensor([90, 10])
    """
    if train_positives is None:
        return None
    counts = as_tensor(train_positives, name="train_positives", hint=_HINT)
    if counts.shape != (num_classes,):
        raise ValueError(
            f"train_positives must have shape ({num_classes},), got {tuple(counts.shape)}: "
            "did the counts come from another data set?"
        )
    return counts


def optional_groups(
    train_positives: Tensor | None, *, rarest: Sequence[int], frequent: Sequence[int]
) -> dict[str, Tensor]:
    """The groups of classes; none if the training counts are not given.

    >>> optional_groups(None, rarest=(), frequent=())
    {}
    """
    if train_positives is not None:
        return class_groups(train_positives, rarest=rarest, frequent=frequent)
    if rarest or frequent:
        raise ValueError(f"rarest and frequent need train_positives, got none: {_HINT}")
    return {}
