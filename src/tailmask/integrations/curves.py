"""What one step of the ratios did, as named numbers that any logger takes."""

from __future__ import annotations

import torch

from tailmask.masking import RatioUpdate

__all__ = ["curves"]

# With more classes than this, a curve for each is more than anybody looks at.
_MAX_CLASSES = 20


def curves(update: RatioUpdate, prefix: str = "plm") -> dict[str, float]:
    """Numbers to plot: extremes and means over the classes, and up to 20 classes' own ratios and gaps.

    >>> ratio, gap = torch.tensor([0.5, 0.1]), torch.tensor([-1.0, 1.0])
    >>> values = curves(RatioUpdate(ratio, gap, divergence=torch.ones(2, 2), keep=torch.ones(2, 2)))
    >>> values["plm/ratio_max"], values["plm/gap/0"], values["plm/divergence_positives"]
    (0.5, -1.0, 1.0)
    """
    divergence = update.divergence.nanmean(dim=1)  # of a label that was never seen there is none
    kept = update.keep.mean(dim=1)
    values = {
        "ratio_min": update.target_ratio.min(),
        "ratio_max": update.target_ratio.max(),
        "divergence_negatives": divergence[0],
        "divergence_positives": divergence[1],
        "kept_negatives": kept[0],
        "kept_positives": kept[1],
    }
    if len(update.target_ratio) <= _MAX_CLASSES:
        for index, (ratio, gap) in enumerate(zip(update.target_ratio, update.gap, strict=True)):
            values |= {f"ratio/{index}": ratio, f"gap/{index}": gap}
    numbers = torch.stack(list(values.values())).tolist()  # one wait for the device
    return {f"{prefix}/{name}": number for name, number in zip(values, numbers, strict=True)}
