"""The result of one ratio update as named numbers for any logger."""

from __future__ import annotations

import torch

from tailmask.functional import MAX_RATIO, MIN_RATIO
from tailmask.masking import RatioUpdate

__all__ = ["curves"]

# With more classes than this, nobody looks at a curve per class.
_MAX_CLASSES = 20


def curves(update: RatioUpdate, prefix: str = "plm") -> dict[str, float]:
    """Numbers to plot: extremes and means over the classes, and for up to 20 classes each ratio and gap.

    The extremes leave out classes without positives or without negatives: their ratios are extreme by
    definition.

    >>> ratio, gap = torch.tensor([0.5, 0.1]), torch.tensor([-1.0, 1.0])
    >>> values = curves(RatioUpdate(ratio, gap, divergence=torch.ones(2, 2), keep=torch.ones(2, 2)))
    >>> values["plm/ratio_max"], values["plm/gap/0"], values["plm/divergence_positives"]
    (0.5, -1.0, 1.0)
    """
    divergence = update.divergence.nanmean(dim=1)  # NaN if the label never occurred
    kept = update.keep.mean(dim=1)
    ratio = update.target_ratio
    adapted = (ratio > MIN_RATIO) & (ratio < MAX_RATIO)
    adapted |= ~adapted.any()
    lowest, highest = ratio.where(adapted, torch.inf).amin(), ratio.where(adapted, -torch.inf).amax()
    values = {
        "ratio_min": lowest,
        "ratio_max": highest,
        "divergence_negatives": divergence[0],
        "divergence_positives": divergence[1],
        "kept_negatives": kept[0],
        "kept_positives": kept[1],
    }
    if len(ratio) <= _MAX_CLASSES:
        for index, (own, gap) in enumerate(zip(ratio, update.gap, strict=True)):
            values |= {f"ratio/{index}": own, f"gap/{index}": gap}
    numbers = torch.stack(list(values.values())).tolist()  # one transfer from the device
    return {f"{prefix}/{name}": number for name, number in zip(values, numbers, strict=True)}
