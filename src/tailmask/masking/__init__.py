"""Partial Label Masking as a loss: the state around the pure functions of `tailmask.functional`."""

from tailmask.masking.counting import count_classes
from tailmask.masking.loss import PartialLabelMasking
from tailmask.masking.ratios import RatioUpdate

__all__ = ["PartialLabelMasking", "RatioUpdate", "count_classes"]
