"""The page's figures with their captions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tailmask.comparison.arrangement import Experiment
from tailmask.comparison.chosen_classes import difficult_classes, representative_classes
from tailmask.comparison.comparison_result import Comparison
from tailmask.methods import parse
from tailmask.report import charts, run_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "Plan", "draw_pictures", "plan_figures"]


@dataclass(frozen=True)
class Picture:
    """A figure as SVG, with the words around it."""

    name: str
    title: str
    caption: str
    svg: str


def draw_pictures(experiment: Experiment, comparison: Comparison, lead: str | None) -> list[Picture]:
    """All figures that the runs have something for, in the page's order."""
    drawn = []
    for name, title, caption, draw in plan_figures(experiment, comparison, lead):
        svg = charts.to_svg(draw(), label=f"{title}. {caption}", prefix=name)
        drawn.append(Picture(name, title, caption, svg))
    return drawn


class Plan(NamedTuple):
    """A figure that is yet to be drawn."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]


def plan_figures(experiment: Experiment, comparison: Comparison, lead: str | None) -> Iterator[Plan]:
    """All figures that the runs have something for, in the page's order."""
    base, shown = comparison.baseline, lead or comparison.baseline
    classes, train_positives = comparison.classes, comparison.train_positives
    # The baseline and the leading method have the same two colours in all figures.
    order = list(dict.fromkeys([base, shown, *experiment.methods]))
    if lead is not None and comparison.differences:
        yield Plan(
            "differences",
            "How much better, and how sure",
            f"Differences to {base} with 95 % intervals, in points; right of the line is better. "
            "Filled marks have an interval without zero.",
            lambda: charts.differences(comparison, methods=order[1:]),
        )
    yield _by_class(comparison, lead)
    chosen = representative_classes(train_positives, 4)
    yield Plan(
        "outputs",
        "Output probabilities",
        "Where the test outputs of a class lie, when it is present (best at 1) and when it is absent "
        "(best at 0), for classes from the most frequent to the rarest. Shares are on a square-root scale.",
        lambda: charts.output_distributions(
            {
                name: run_curves.output_counts(experiment.runs[name].values(), chosen)
                for name in dict.fromkeys([base, shown])
            },
            classes=[classes[index] for index in chosen],
            train_positives=[train_positives[index] for index in chosen],
            chosen=range(len(chosen)),
        ),
    )
    runs = experiment.runs[shown].values()
    masking = parse(next(iter(runs)).config["method"]).masking
    if masking is not None and run_curves.have_history(runs):
        is_paper = masking.get("adapt") != "prevalence"
        moves = "their balance moves the ratios" if is_paper else "under adapt=prevalence they move nothing"
        yield Plan(
            "ratios",
            f"Ratios of {shown} over the epochs",
            "The ratio of positive to negative labels that each class is trained at, from red for the most "
            f"frequent to blue for the rarest{_band(len(classes))}. Mean over the seeds.",
            lambda: charts.ratio_trajectories(
                run_curves.ratios(runs), classes=classes, train_positives=train_positives
            ),
        )
        divergences = run_curves.divergences(runs)
        if not np.isnan(divergences).all():
            yield Plan(
                "divergences",
                f"Divergences of {shown} over the epochs",
                f"How far outputs are from the truth, over the data that ratios are adapted by; {moves}"
                f"{_band(len(classes))}.",
                lambda: charts.divergence_trajectories(
                    divergences, classes=classes, train_positives=train_positives
                ),
            )
    trained = {
        name: experiment.runs[name].values()
        for name in order
        if run_curves.have_history(experiment.runs[name].values())
    }
    if not trained:
        return
    yield Plan(
        "losses",
        "Training loss",
        "Mean over the seeds, with their range. Methods measure different losses: compare courses, "
        "not levels.",
        lambda: charts.loss_curves({name: run_curves.losses(runs) for name, runs in trained.items()}),
    )


def _band(num_classes: int) -> str:
    """What a caption says of the band that there is beside the lines where classes are many."""
    return "; the grey band holds all classes" if num_classes > charts.MOST_LINES else ""


def _by_class(comparison: Comparison, lead: str | None) -> Plan:
    base = comparison.baseline
    names = {"precision": "Precision", "recall": "Recall", "f1": "F1"}
    values = {
        method: {label: comparison.class_values[method][name] for name, label in names.items()}
        for method in ([base] if lead is None else [base, lead])
    }
    hard = difficult_classes(comparison.class_values[base]["f1"], comparison.train_positives)[:12]
    caption = "Classes from the most to the least frequent in training. " + (
        f"Bars are {base}." if lead is None else f"Bars are {lead}, points {base}."
    )
    if hard:
        caption += f" Triangles: many training samples, and yet an F1 under 20 % with {base}."

    def draw() -> Figure:
        return charts.by_class(
            values[lead or base],
            None if lead is None else values[base],
            classes=comparison.classes,
            train_positives=comparison.train_positives,
            labels=(lead or base, base),
            marked=hard,
        )

    return Plan("by-class", "Precision, recall and F1 by class", caption, draw)
