"""A comparison's figures as matplotlib objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailmask.comparison import Comparison, arrange
from tailmask.comparison.verdict_sentences import lead_method
from tailmask.methods import parse
from tailmask.report import charts, run_curves
from tailmask.report.page_figures import plan_figures
from tailmask.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_study"]


def draw_study(runs: Sequence[Run], comparison: Comparison) -> dict[str, Figure]:
    """The page's figures by name, and the ratios of the other methods that mask labels."""
    experiment = arrange(runs, baseline=comparison.baseline)
    lead = lead_method(comparison)
    drawn = {plan.name: plan.draw() for plan in plan_figures(experiment, comparison, lead)}
    for method, by_seed in experiment.runs.items():
        if method == (lead or comparison.baseline) or parse(method).masking is None:
            continue
        if run_curves.have_history(by_seed.values()):
            drawn[f"ratios of {method}"] = charts.ratio_trajectories(
                run_curves.ratios(by_seed.values()),
                classes=comparison.classes,
                train_positives=comparison.train_positives,
            )
    return drawn
