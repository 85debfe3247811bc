"""Figures as matplotlib objects, one function each; `to_svg` turns them into inline SVG.

Where a figure stands on the page lives in `tailmask.report.page_figures`.
"""

from __future__ import annotations

from tailmask.report.charts.class_bars import by_class, class_curves
from tailmask.report.charts.difference_bars import differences, grouped_bars
from tailmask.report.charts.distributions import output_distributions, toy_example
from tailmask.report.charts.output_curves import calibration_curves, precision_recall_curves
from tailmask.report.charts.over_epochs import (
    MOST_LINES,
    divergence_trajectories,
    loss_curves,
    ratio_trajectories,
)
from tailmask.report.charts.svg_output import to_svg

__all__ = [
    "MOST_LINES",
    "by_class",
    "calibration_curves",
    "class_curves",
    "differences",
    "divergence_trajectories",
    "grouped_bars",
    "loss_curves",
    "output_distributions",
    "precision_recall_curves",
    "ratio_trajectories",
    "to_svg",
    "toy_example",
]
