"""Figure 2: the ratios of the classes over the epochs."""

from __future__ import annotations

from functools import partial

from tailmask.paper.published_numbers import load_paper
from tailmask.paper.request import Answer, Arm, PaperItem, Request, Runs
from tailmask.paper.result_table import ResultCell, ResultRow, Table, measured

__all__ = ["ratio_item"]


def ratio_item(request: Request) -> PaperItem:
    """Figure 2 on MultiMNIST or on other data."""
    data = request.data or "multimnist"
    arm = Arm(request.setting(data), "plm")
    return PaperItem(f"Figure 2: ratios over the epochs on {data}", [arm], partial(_answer, arm))


def _answer(arm: Arm, runs: Runs) -> Answer:
    """The ratio of each class in the first and the last epoch, and its curve; means over the seeds."""
    from tailmask.comparison.chosen_classes import by_frequency
    from tailmask.report.charts import ratio_trajectories
    from tailmask.report.run_curves import ratios

    found = runs.find(arm)
    if not found:
        return Answer(())
    courses = [ratios([run]) for run in found]  # (T, C) each
    config = found[0].config
    names, counts = config["classes"], config["train_counts"][1]
    ends = load_paper()["figure2"] if arm.setting.data == "multimnist" else {}
    rows = []
    for c in by_frequency(counts):
        first, last, factor = (ends.get(part, {}).get(names[c]) for part in ("start", "end", "factor"))
        before = measured([float(course[0, c]) for course in courses], paper=first)
        after = measured([float(course[-1, c]) for course in courses], paper=last)
        rows.append(
            ResultRow(names[c], (before, after, ResultCell(factor, _factor(before.mean, after.mean))))
        )
    columns = ("First epoch", f"Epoch {len(courses[0])}", "Changed by a factor of")
    table = Table("Ratio of positives to negatives", "Class", columns, tuple(rows), digits=3)
    figure = ratio_trajectories(ratios(found), classes=names, train_positives=counts)
    return Answer((table,), figure)


def _factor(start: float | None, end: float | None) -> float | None:
    return max(start / end, end / start) if start and end else None
