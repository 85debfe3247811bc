"""The losses that Partial Label Masking is compared and combined with, and their class weights.

Each takes (logits, targets) of shape (N, C), works alone with a `reduction`, and leaves out unknown labels
(−1 or NaN). Elementwise losses also work inside `PartialLabelMasking` with `reduction="none"`; the softmax
loss LDAM does not. A loss that is not imported here is found by its class name when it is first used.
"""

from __future__ import annotations

from typing import Any

from tailmask._util.registry import find_words
from tailmask.losses.asymmetric import AsymmetricLoss, asymmetric_loss
from tailmask.losses.bce import BinaryCrossEntropy
from tailmask.losses.deferred_weights import DeferredReweighting
from tailmask.losses.distribution_balanced import DistributionBalancedLoss, rebalanced_weights
from tailmask.losses.elementwise_loss import ElementwiseLoss
from tailmask.losses.focal import FocalLoss, focal_loss
from tailmask.losses.hill import HillLoss
from tailmask.losses.ldam import LDAMLoss, ldam_margins
from tailmask.losses.weights import class_balanced_weights, positive_weights, sample_weights

__all__ = [
    "AsymmetricLoss",
    "BinaryCrossEntropy",
    "DeferredReweighting",
    "DistributionBalancedLoss",
    "ElementwiseLoss",
    "FocalLoss",
    "HillLoss",
    "LDAMLoss",
    "asymmetric_loss",
    "class_balanced_weights",
    "focal_loss",
    "ldam_margins",
    "positive_weights",
    "rebalanced_weights",
    "sample_weights",
]


def __getattr__(name: str) -> Any:
    for word in find_words().values():
        if word.attribute == name and word.module.startswith(f"{__name__}."):
            return word.builder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
