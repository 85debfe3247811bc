"""Figure 2: how the ratios of the classes move from epoch to epoch."""

from __future__ import annotations

from dataclasses import dataclass

from tailmask.study.drawing import Line, draw_lines
from tailmask.study.paper import load_paper
from tailmask.study.plan import Setting
from tailmask.study.request import Answer, FindRuns, Part, Request
from tailmask.study.tables import Cell, Row, Table, measured
from tailmask.study.targets.scores import by_frequency

__all__ = ["RatioTarget", "ratio_target"]

# Of the most frequent and of the rarest classes, as many as the paper draws.
NUM_DRAWN = 3


@dataclass(frozen=True)
class RatioTarget:
    """The ratio of each class at the first and the last epoch, and its course between them."""

    title: str
    setting: Setting

    @property
    def parts(self) -> list[Part]:
        """What is to be trained."""
        return [Part(self.setting, "plm")]

    def answer(self, find: FindRuns) -> Answer:
        """A table of all classes, over all seeds, and the courses of the run with the lowest seed."""
        runs = find(self.parts[0])
        if not runs:
            return Answer(())
        courses = [[epoch["ratio"] for epoch in run.history] for run in runs]  # run, epoch, class
        config = runs[0].config
        order, names = by_frequency(config["train_counts"][1]), config["classes"]
        ends = load_paper()["figure2"] if self.setting.data == "multimnist" else {}
        rows = []
        for c in order:
            starts, stops = [course[0][c] for course in courses], [course[-1][c] for course in courses]
            first, last, factor = (ends.get(part, {}).get(names[c]) for part in ("start", "end", "factor"))
            before, after = measured(starts, paper=first), measured(stops, paper=last)
            rows.append(Row(names[c], (before, after, Cell(factor, _factor(before.mean, after.mean)))))
        columns = ("First epoch", f"Epoch {len(courses[0])}", "Changed by a factor of")
        table = Table("Ratio of positives to negatives", "Class", columns, tuple(rows), digits=3)
        drawn = order if len(order) <= 2 * NUM_DRAWN else [*order[:NUM_DRAWN], *order[-NUM_DRAWN:]]
        lines = [Line(names[c], [epoch[c] for epoch in courses[0]]) for c in drawn]
        return Answer((table,), draw_lines(lines, ylabel="ratio of positives to negatives"))


def ratio_target(request: Request) -> RatioTarget:
    """Figure 2 on MultiMNIST or on other data."""
    data = request.data or "multimnist"
    return RatioTarget(f"Figure 2: ratios over the epochs on {data}", request.setting(data))


def _factor(start: float | None, end: float | None) -> float | None:
    return max(start / end, end / start) if start and end else None
