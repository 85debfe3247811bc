"""Figures 3, 4 and 8: scores class by class, BCE against PLM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailmask.paper.items.claims import statements
from tailmask.paper.items.method_tables import chosen_imbalances
from tailmask.paper.items.other_data import own_setting
from tailmask.paper.items.scores_by_class import Scores, class_scores
from tailmask.paper.request import Answer, Arm, Request, Runs
from tailmask.runs import ResolvedSetting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ClassItem", "accuracy_item", "class_item"]

# The paper does not name the imbalances of its three panels; these span the range of its tables.
FIGURE3_RHO = (10.0, 100.0, 200.0)
_TITLES = {"f1": "F1", "precision": "Precision", "recall": "Recall"}


@dataclass(frozen=True)
class Panel:
    """One measure in one setting."""

    title: str
    setting: ResolvedSetting
    metric: str


@dataclass(frozen=True)
class ClassItem:
    """Scores by class in one or more panels; `name` is the figure whose statements are shown too."""

    title: str
    panels: tuple[Panel, ...]
    arms: list[Arm]
    name: str | None = None

    def answer(self, runs: Runs) -> Answer:
        """A table for each panel that was run, the paper's statements about the figure, and the figure."""
        scores = []
        for panel in self.panels:
            bce, plm = (runs.find(Arm(panel.setting, method)) for method in ("bce", "plm"))
            if bce and plm:
                scores.append(class_scores(panel.title, panel.metric, bce=bce, plm=plm))
        if not scores:
            return Answer(())
        tables = [each.table() for each in scores]
        if self.name is not None:
            on_paper_data = self.panels[0].setting.data == "coco"
            tables.insert(0, statements(self.name, scores, on_paper_data=on_paper_data))
        return Answer(tuple(tables), _curves(scores) if self.name is None else _bars(scores, self.name))


def accuracy_item(request: Request) -> ClassItem:
    """Figure 3: accuracy (recall) of each class of CIFAR-10-LT at several imbalances."""
    title = "Figure 3: accuracy by class"
    if request.data is not None:
        setting, _ = own_setting(request, request.data)
        panels = [Panel(f"Recall on {request.data}", setting, "recall")]
        return ClassItem(f"{title} on {request.data}", tuple(panels), _arms(panels))
    panels = [
        Panel(f"Accuracy at ρ = {rho:g}", request.setting("cifar10-lt", rho=rho), "recall")
        for rho in FIGURE3_RHO
    ]
    chosen = chosen_imbalances(request, FIGURE3_RHO)
    trained = [panel for panel in panels if panel.setting.options.rho in chosen]
    return ClassItem(f"{title} on CIFAR-10-LT", tuple(panels), _arms(trained))


def class_item(request: Request, *, name: str) -> ClassItem:
    """Figures 4 and 8: F1, or precision and recall, of each class of MSCOCO."""
    metrics = {"figure4": ("f1",), "figure8": ("precision", "recall")}[name]
    data = request.data or "coco"
    setting = request.setting(data) if request.data is None else own_setting(request, data)[0]
    panels = [Panel(f"{_TITLES[metric]} on {data}", setting, metric) for metric in metrics]
    what = " and ".join(_TITLES[metric] for metric in metrics)
    title = f"Figure {name.removeprefix('figure')}: {what} by class on {data}"
    return ClassItem(title, tuple(panels), _arms(panels), name)


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
