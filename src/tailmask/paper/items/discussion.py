"""The discussion's figures: precision of the head, recall of the tail, and the remaining imbalance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tailmask.data.facts import load_data
from tailmask.paper.items.other_data import chosen_setting
from tailmask.paper.items.scores_by_class import class_scores
from tailmask.paper.published_numbers import load_paper
from tailmask.paper.request import Answer, Arm, PaperItem, Request, Runs
from tailmask.paper.result_table import ResultCell, ResultRow, Table, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ends_item", "imbalance_item"]

NUM_DRAWS = 10


def ends_item(request: Request) -> PaperItem:
    """Precision over the most frequent and recall over the rarest classes, of MSCOCO or of other data."""
    setting = chosen_setting(request, "coco")
    arms = [Arm(setting, method) for method in ("bce", "plm")]
    title = f"Discussion: precision and recall at the ends of {setting.data}"
    return PaperItem(title, arms, partial(_ends, arms, on_paper_data=setting.data == "coco"))


def imbalance_item(request: Request) -> PaperItem:
    """The remaining imbalance on MultiMNIST, or on other data; undersampling is counted without training."""
    data = request.data or "multimnist"
    arm = Arm(request.setting(data), "plm")
    return PaperItem(f"Discussion: remaining imbalance of {data}", [arm], partial(_remaining, arm))


def _ends(arms: Sequence[Arm], runs: Runs, *, on_paper_data: bool) -> Answer:
    """The means over the most frequent and the rarest classes, and PLM's gain beside the paper's."""
    bce, plm = map(runs.find, arms)
    if not bce or not plm:
        return Answer(())
    paper = load_paper()
    stated = {
        ("precision", 5): paper["discussion"]["precision_frequent_5_gain"],
        ("precision", 10): paper["figure8"]["precision_frequent_10_gain"],
        ("recall", -5): paper["discussion"]["recall_rarest_5_gain"],
    }
    rows = []
    for (metric, number), gain in stated.items():
        scores = class_scores("", metric, bce=bce, plm=plm)
        ends = slice(None, number) if number > 0 else slice(number, None)
        before, after = (_over_classes(values[ends]) for values in (scores.bce, scores.plm))
        end = "most frequent" if number > 0 else "rarest"
        cells = (measured(before), measured(after))
        difference = (cells[1].mean or 0.0) - (cells[0].mean or 0.0)
        label = f"{metric.capitalize()}, {min(abs(number), len(scores.classes))} {end} classes"
        rows.append(ResultRow(label, (*cells, ResultCell(gain if on_paper_data else None, difference))))
    table = Table("In percent", "Measure", ("bce", "plm", "Gain"), tuple(rows))
    return Answer((table,), _draw(table, ("bce", "plm")))


def _remaining(arm: Arm, runs: Runs) -> Answer:
    """ρ of the positives and the spread of the ratios: of the data, undersampling and the kept labels."""
    from tailmask.methods import build_objective

    setting = arm.setting
    train = load_data(setting.data, setting.options).train
    negatives, positives = train.counts().double()
    rows = [ResultRow("The data", _cells([_imbalance(positives.tolist(), negatives.tolist())]))]
    method = setting.config("bce+undersample").method
    objective = build_objective(method, train)
    drawn = []
    for epoch in range(NUM_DRAWS):
        objective.order(epoch)
        counts = objective.sampler.class_counts() if objective.sampler is not None else train.counts()
        drawn.append(_imbalance(counts[1].tolist(), counts[0].tolist()))
    samples = getattr(objective.sampler, "samples_per_class", None)
    rows.append(ResultRow(f"Undersampling, {samples} per class", _cells(drawn)))
    kept = []
    for run in runs.find(arm):
        keep = run.history[-1]["keep"]
        counted = zip(keep, run.config["train_counts"], strict=True)
        of_negatives, of_positives = (
            [share * n for share, n in zip(shares, numbers, strict=True)] for shares, numbers in counted
        )
        kept.append(_imbalance(of_positives, of_negatives))
    rows.append(ResultRow("plm, last epoch", _cells(kept)))
    columns = ("ρ: most over fewest positives", "Largest over smallest ratio")
    table = Table("Imbalance in training", "Training on", columns, tuple(rows), digits=1)
    note = (
        f"Undersampling is counted over the draws of {NUM_DRAWS} epochs, plm over the labels that it "
        "keeps in its last epoch."
    )
    return Answer((table,), _draw(table, columns, logarithmic=True), notes=(note,))


def _draw(table: Table, columns: Sequence[str], *, logarithmic: bool = False) -> Figure:
    """The first columns of a table as bars, one group per row."""
    from tailmask.report.charts import grouped_bars

    groups = {
        row.label.replace(", ", "\n"): {
            name: cell.mean for name, cell in zip(columns, row.cells, strict=False) if cell.mean is not None
        }
        for row in table.rows
    }
    return grouped_bars(groups, label=table.caption, logarithmic=logarithmic)


def _over_classes(values: tuple[tuple[float, ...], ...]) -> list[float]:
    """The mean over the classes, one value per run."""
    return [sum(of_run) / len(of_run) for of_run in zip(*values, strict=True)]


def _imbalance(positives: list[float], negatives: list[float]) -> tuple[float, float]:
    present = [number for number in positives if number]
    ratios = [p / n for p, n in zip(positives, negatives, strict=True) if p and n]
    return max(present) / min(present), max(ratios) / min(ratios)


def _cells(values: list[tuple[float, float]]) -> tuple[ResultCell, ResultCell]:
    rho, spread = zip(*values, strict=True) if values else ((), ())
    return measured(rho), measured(spread)
