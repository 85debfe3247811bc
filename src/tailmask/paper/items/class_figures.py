"""Figures 3, 4 and 8: scores class by class, BCE against PLM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tailmask.paper.items.claims import statements
from tailmask.paper.items.method_tables import chosen_imbalances
from tailmask.paper.items.other_data import chosen_setting
from tailmask.paper.items.scores_by_class import Scores, class_scores
from tailmask.paper.request import Answer, Arm, PaperItem, Request, Runs
from tailmask.runs import ResolvedSetting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["accuracy_item", "class_item"]

# The paper does not name the imbalances of its three panels; these span the range of its tables.
FIGURE3_RHO = (10.0, 100.0, 200.0)
_TITLES = {"f1": "F1", "precision": "Precision", "recall": "Recall"}


@dataclass(frozen=True)
class Panel:
    """One measure in one setting."""

    title: str
    setting: ResolvedSetting
    metric: str


def accuracy_item(request: Request) -> PaperItem:
    """Figure 3: accuracy (recall) of each class of CIFAR-10-LT at several imbalances."""
    title = "Figure 3: accuracy by class"
    if request.data is not None:
        panels = [Panel(f"Recall on {request.data}", chosen_setting(request, request.data), "recall")]
        return PaperItem(f"{title} on {request.data}", _arms(panels), partial(_answer, panels))
    panels = [
        Panel(f"Accuracy at ρ = {rho:g}", request.setting("cifar10-lt", rho=rho), "recall")
        for rho in FIGURE3_RHO
    ]
    chosen = chosen_imbalances(request, FIGURE3_RHO)
    trained = [panel for panel in panels if panel.setting.options.rho in chosen]
    return PaperItem(f"{title} on CIFAR-10-LT", _arms(trained), partial(_answer, panels))


def class_item(request: Request, *, name: str) -> PaperItem:
    """Figures 4 and 8: F1, or precision and recall, of each class of MSCOCO."""
    metrics = {"figure4": ("f1",), "figure8": ("precision", "recall")}[name]
    data = request.data or "coco"
    setting = chosen_setting(request, "coco")
    panels = [Panel(f"{_TITLES[metric]} on {data}", setting, metric) for metric in metrics]
    what = " and ".join(_TITLES[metric] for metric in metrics)
    title = f"Figure {name.removeprefix('figure')}: {what} by class on {data}"
    return PaperItem(title, _arms(panels), partial(_answer, panels, name=name))


def _answer(panels: Sequence[Panel], runs: Runs, *, name: str | None = None) -> Answer:
    """A table for each panel that was run, the paper's statements about the figure `name`, and the figure."""
    scores = []
    for panel in panels:
        bce, plm = (runs.find(Arm(panel.setting, method)) for method in ("bce", "plm"))
        if bce and plm:
            scores.append(class_scores(panel.title, panel.metric, bce=bce, plm=plm))
    if not scores:
        return Answer(())
    tables = [each.table() for each in scores]
    if name is not None:
        on_paper_data = panels[0].setting.data == "coco"
        tables.insert(0, statements(name, scores, on_paper_data=on_paper_data))
    return Answer(tuple(tables), _curves(scores) if name is None else _bars(scores, name))


def _arms(panels: Sequence[Panel]) -> list[Arm]:
    arms = [Arm(panel.setting, method) for panel in panels for method in ("bce", "plm")]
    return list(dict.fromkeys(arms))


def _curves(scores: Sequence[Scores]) -> Figure:
    from tailmask.report.charts import class_curves

    panels = {each.title: dict(zip(("bce", "plm"), each.shares(), strict=True)) for each in scores}
    return class_curves(panels, classes=scores[0].classes, train_positives=scores[0].counts, label="%")


def _bars(scores: Sequence[Scores], name: str) -> Figure:
    from tailmask.report.charts import by_class

    shares = {each.title: each.shares() for each in scores}
    return by_class(
        {title: plm for title, (_, plm) in shares.items()},
        {title: bce for title, (bce, _) in shares.items()},
        classes=scores[0].classes,
        train_positives=scores[0].counts,
        marked=scores[0].difficult() if name == "figure4" else (),
        mark_label="many samples, F1 below 20 % with bce",
    )
