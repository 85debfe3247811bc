"""The page's figures with their captions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tailmask.comparison.arrangement import Experiment, arrange
from tailmask.comparison.chosen_classes import difficult_classes, representative_classes
from tailmask.comparison.comparison_result import Comparison
from tailmask.comparison.verdict_sentences import decision_words, lead_method, shown_decision
from tailmask.methods import parse
from tailmask.report import charts, run_curves
from tailmask.runs.reader import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "Plan", "draw_pictures", "draw_study", "plan_figures"]


@dataclass(frozen=True)
class Picture:
    """A figure as SVG, with its title and caption."""

    name: str
    title: str
    caption: str
    svg: str


def draw_pictures(experiment: Experiment, comparison: Comparison, lead: str | None) -> list[Picture]:
    """All figures for which the runs have data, in the page's order."""
    drawn = []
    for name, title, caption, draw in plan_figures(experiment, comparison, lead):
        svg = charts.to_svg(draw(), label=f"{title}. {caption}", prefix=name)
        drawn.append(Picture(name, title, caption, svg))
    return drawn


def draw_study(runs: Sequence[Run], comparison: Comparison) -> dict[str, Figure]:
    """The page's figures as matplotlib objects, by name, and the ratios of the other methods that mask."""
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


class Plan(NamedTuple):
    """A figure to draw."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]


# The largest number of methods in the figure of differences.
MOST_METHODS = 6


def plan_figures(experiment: Experiment, comparison: Comparison, lead: str | None) -> Iterator[Plan]:
    """All figures for which the runs have data, in the page's order."""
    base, shown = comparison.baseline, lead or comparison.baseline
    # The baseline and the shown method have the same two colours in all figures.
    order = list(dict.fromkeys([base, shown, *experiment.methods]))
    if lead is not None and _any_difference(comparison):
        yield _differences(comparison, order[1:])
    if any(value > 0 for value in comparison.class_values[shown]["f1"]):
        yield _by_class(comparison, lead)
    pair = list(dict.fromkeys([base, shown]))
    yield from _outputs(experiment, comparison, pair)
    trained = [name for name in order if run_curves.have_history(experiment.runs[name].values())]
    if shown in trained:
        yield from _ratios(experiment, comparison, shown)
    if trained:
        yield from _losses(experiment, trained)


def _any_difference(comparison: Comparison) -> bool:
    """True if some method has a nonzero difference to the baseline."""
    own = [each for each in comparison.differences if each.method != comparison.baseline]
    return any(any((each.mean, each.low, each.high)) for each in own)


def _differences(comparison: Comparison, others: Sequence[str]) -> Plan:
    decision = shown_decision(comparison)
    how = "" if comparison.single_label else f", both {decision_words(decision)}"
    left_out = "" if len(others) <= MOST_METHODS else f" {len(others) - MOST_METHODS} methods are left out."
    return Plan(
        "differences",
        "How much better, and how sure",
        f"Differences to {comparison.baseline}{how}, with 95 % intervals, in points. Right of the line is "
        f"better. Filled marks have an interval without zero.{left_out}",
        lambda: charts.differences(comparison, methods=others[:MOST_METHODS], decision=decision),
    )


def _outputs(experiment: Experiment, comparison: Comparison, methods: Sequence[str]) -> Iterator[Plan]:
    """Figures of the outputs for a few classes with a hit in the test set, from frequent to rare."""
    scores = [comparison.class_values[method]["f1"] for method in methods]
    found = [any(score > 0 for score in by_method) for by_method in zip(*scores, strict=True)]
    counts = zip(comparison.train_positives, comparison.test_positives, found, strict=True)
    present = [index for index, numbers in enumerate(counts) if all(numbers)]
    if not present:
        return
    places = representative_classes([comparison.train_positives[index] for index in present], 4)
    chosen = [present[place] for place in places]
    classes = [comparison.classes[index] for index in chosen]
    numbers = [comparison.train_positives[index] for index in chosen]
    runs = {name: list(experiment.runs[name].values()) for name in methods}
    decision = shown_decision(comparison)

    def precision_recall() -> Figure:
        points = {name: run_curves.threshold_points(runs[name], chosen, decision) for name in methods}
        return charts.precision_recall_curves(
            {name: run_curves.precision_recall(runs[name], chosen) for name in methods},
            classes=classes,
            train_positives=numbers,
            points={name: value for name, value in points.items() if value is not None},
        )

    how = "" if comparison.single_label else f" Dots are the decisions {decision_words(decision)}."
    yield Plan(
        "precision-recall",
        "Precision and recall of some classes",
        f"On the test set, for classes with an F1 above 0, from the most frequent to the rarest. The curves "
        f"are means over the seeds.{how}",
        precision_recall,
    )
    yield Plan(
        "calibration",
        "Calibration of some classes",
        "Test outputs in bins with equal numbers of outputs: the mean output, and how often the class is "
        "present. On the dotted line the outputs are calibrated. Both axes have a square-root scale.",
        lambda: charts.calibration_curves(
            {name: run_curves.calibration(runs[name], chosen) for name in methods},
            classes=classes,
            train_positives=numbers,
        ),
    )
    yield Plan(
        "outputs",
        "Output probabilities",
        "Distribution of the test outputs of a class if it is present (best at 1) and if it is absent "
        "(best at 0). Shares have a square-root scale.",
        lambda: charts.output_distributions(
            {name: run_curves.output_counts(runs[name], chosen) for name in methods},
            classes=classes,
            train_positives=numbers,
            chosen=range(len(chosen)),
        ),
    )


def _ratios(experiment: Experiment, comparison: Comparison, shown: str) -> Iterator[Plan]:
    """Figures of the ratios and divergences of a masking method, if they change."""
    runs = experiment.runs[shown].values()
    masking = parse(next(iter(runs)).config["method"]).masking
    if masking is None:
        return
    classes, train_positives = comparison.classes, comparison.train_positives
    ratios = run_curves.ratios(runs)
    if len(ratios) > 1 and not np.allclose(ratios, ratios[:1], equal_nan=True):
        yield Plan(
            "ratios",
            f"Ratios of {shown} over the epochs",
            "The target ratio of positive to negative labels of each class, from red (most frequent) to "
            f"blue (rarest){_band(len(classes))}. Mean over the seeds.",
            lambda: charts.ratio_trajectories(ratios, classes=classes, train_positives=train_positives),
        )
    divergences = run_curves.divergences(runs)
    if len(divergences) > 1 and not np.isnan(divergences).all():
        is_paper = masking.get("adapt") != "prevalence"
        moves = (
            "their balance changes the ratios" if is_paper else "with adapt=prevalence they change nothing"
        )
        yield Plan(
            "divergences",
            f"Divergences of {shown} over the epochs",
            f"Divergence of the outputs from the labels, on the data that adapt the ratios; {moves}"
            f"{_band(len(classes))}.",
            lambda: charts.divergence_trajectories(
                divergences, classes=classes, train_positives=train_positives
            ),
        )


def _losses(experiment: Experiment, order: Sequence[str]) -> Iterator[Plan]:
    """The figure of training and validation over the epochs, if there is more than one."""
    losses = {name: run_curves.losses(experiment.runs[name].values()) for name in order}
    if max(len(curve) for curves in losses.values() for curve in curves) < 2:
        return
    name, label = ("error_balanced", "error") if experiment.single_label else ("f1", "F1")
    found = {each: run_curves.validation_curves(experiment.runs[each].values(), name) for each in order}
    validation = {each: curves for each, curves in found.items() if curves is not None}
    beside = f" and {label} on validation data at the default threshold" if validation else ""
    yield Plan(
        "losses",
        "Training and validation" if validation else "Training loss",
        f"Training loss{beside}: mean over the seeds, with their range. Methods have different losses: "
        "compare the shapes of the curves, not their levels.",
        lambda: charts.loss_curves(losses, validation or None, measure=label),
    )


def _band(num_classes: int) -> str:
    """The part of a caption about the grey band, which is drawn if there are many classes."""
    return "; the grey band covers all classes" if num_classes > charts.MOST_LINES else ""


def _by_class(comparison: Comparison, lead: str | None) -> Plan:
    base = comparison.baseline
    names = {"precision": "Precision", "recall": "Recall", "f1": "F1"}
    values = {
        method: {label: comparison.class_values[method][name] for name, label in names.items()}
        for method in ([base] if lead is None else [base, lead])
    }
    hard = difficult_classes(comparison.class_values[base]["f1"], comparison.train_positives)[:12]
    how = "" if comparison.single_label else f"{decision_words(comparison.class_decision).capitalize()}. "
    caption = f"{how}Classes from the most to the least frequent in training. " + (
        f"Bars are {base}." if lead is None else f"Bars are {lead}, points {base}."
    )
    if hard:
        caption += f" Triangles: many training samples, but an F1 below 20 % with {base}."

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
