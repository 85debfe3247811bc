"""tailmask: train classifiers on imbalanced data, multi-label data above all.

`PartialLabelMasking` is a loss that masks single labels. Each class is trained at its own ratio of positives
to negatives, and this ratio is adapted once per epoch. The package also has the losses, samplers and metrics
that it is compared with, and a command line that compares them on your own data.

Names are resolved when they are first used: `import tailmask` by itself does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailmask.fitting import fit as fit
    from tailmask.fitting import load_model as load_model
    from tailmask.masking import PartialLabelMasking as PartialLabelMasking
    from tailmask.studies import compare as compare

__version__ = "0.1.0"

__all__ = ["PartialLabelMasking", "__version__", "compare", "fit", "load_model"]

_NAMES = {"PartialLabelMasking": "masking", "compare": "studies", "fit": "fitting", "load_model": "fitting"}

_MODULES = (
    *(
        "backbones",
        "calibration",
        "comparison",
        "data",
        "fitting",
        "functional",
        "inference",
        "integrations",
        "learners",
        "losses",
        "masking",
    ),
    *("methods", "metrics", "models", "paper", "report", "runs", "sampling", "studies", "training"),
)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"tailmask.{_NAMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"tailmask.{name}")
    raise AttributeError(f"module 'tailmask' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
