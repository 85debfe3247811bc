"""Figures as matplotlib objects, one function each; `to_svg` makes them part of a page."""

from __future__ import annotations

from tailmask.report.figures.by_class import by_class, class_curves
from tailmask.report.figures.distributions import output_distributions, toy_example
from tailmask.report.figures.over_epochs import (
    MOST_LINES,
    divergence_trajectories,
    loss_curves,
    ratio_trajectories,
)
from tailmask.report.figures.style import to_svg
from tailmask.report.figures.summary import differences, grouped_bars

__all__ = [
    "MOST_LINES",
    "by_class",
    "class_curves",
    "differences",
    "divergence_trajectories",
    "grouped_bars",
    "loss_curves",
    "output_distributions",
    "ratio_trajectories",
    "to_svg",
    "toy_example",
]
