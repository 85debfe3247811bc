"""The losses that Partial Label Masking is compared and combined with, and the weights that go into them.

Each takes (logits, targets) of shape (N, C), works alone with a `reduction`, and leaves out labels that are
unknown (−1 or NaN). Those that are elementwise also go inside `PartialLabelMasking` with `reduction="none"`;
the softmax loss LDAM does not.
"""

from tailmask.losses.asymmetric import AsymmetricLoss, asymmetric_loss
from tailmask.losses.base import ElementwiseLoss
from tailmask.losses.deferred import DeferredReweighting
from tailmask.losses.distribution_balanced import DistributionBalancedLoss, rebalanced_weights
from tailmask.losses.elementwise import BinaryCrossEntropy, FocalLoss, focal_loss
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
