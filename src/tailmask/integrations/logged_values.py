"""What one step of the ratios did, as named numbers that any logger takes."""

from __future__ import annotations

import torch

from tailmask.functional import MAX_RATIO, MIN_RATIO
from tailmask.masking import RatioUpdate

__all__ = ["curves"]

# With more classes than this, a curve for each is more than anybody looks at.
_MAX_CLASSES = 20


def curves(update: RatioUpdate, prefix: str = "plm") -> dict[str, float]:
    """Numbers to plot: extremes and means over the classes, and up to 20 classes' own ratios and gaps.

    The extremes leave out classes that lack a label, whose ratio is as good as 0 or infinite.

    >>> ratio, gap = torch.tensor([0.5, 0.1]), torch.tensor([-1.0, 1.0])
    >>> values = curves(RatioUpdate(ratio, gap, divergence=torch.ones(2, 2), keep=torch.ones(2, 2)))
    >>> values["plm/ratio_max"], values["plm/gap/0"], values["plm/divergence_positives"]
    (0.5, -1.0, 1.0)
    """
    divergence = update.divergence.nanmean(dim=1)  # of a label that was never seen there is none
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
    numbers = torch.stack(list(values.values())).tolist()  # one wait for the device
    return {f"{prefix}/{name}": number for name, number in zip(values, numbers, strict=True)}
