"""Partial Label Masking as a loss: the state around the pure functions of `tailmask.functional`."""

from tailmask.masking.class_counts import count_classes
from tailmask.masking.partial_label_masking import PartialLabelMasking
from tailmask.masking.ratios import RatioUpdate

__all__ = ["PartialLabelMasking", "RatioUpdate", "count_classes"]
