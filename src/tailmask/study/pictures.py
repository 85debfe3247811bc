"""A comparison's figures as matplotlib objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailmask.analysis import Comparison, arrange
from tailmask.analysis.verdict import lead_method
from tailmask.method import parse
from tailmask.report import figures, history
from tailmask.training import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_study"]


def draw_study(runs: Sequence[Run], comparison: Comparison) -> dict[str, Figure]:
    """Differences, classes, losses, and the ratios of each method that masks labels."""
    experiment = arrange(runs, baseline=comparison.baseline)
    lead, base = lead_method(comparison), comparison.baseline
    drawn = {
        "losses": figures.loss_curves(
            {name: history.losses(by_seed.values()) for name, by_seed in experiment.runs.items()}
        )
    }
    if lead is not None and comparison.differences:
        drawn["differences"] = figures.differences(comparison)
        values = comparison.class_values
        drawn["by_class"] = figures.by_class(
            values[lead],
            values[base],
            classes=comparison.classes,
            train_positives=comparison.train_positives,
            labels=(lead, base),
        )
    for method, by_seed in experiment.runs.items():
        if parse(method).masking is not None:
            drawn[f"ratios of {method}"] = figures.ratio_trajectories(
                history.ratios(by_seed.values()),
                classes=comparison.classes,
                train_positives=comparison.train_positives,
            )
    return drawn
