"""Table 7: the number of samples per class; nothing is trained."""

from __future__ import annotations

from functools import partial

from tailmask.data.facts import load_data
from tailmask.paper.published_numbers import load_paper
from tailmask.paper.request import Answer, PaperItem, Request, Runs
from tailmask.paper.result_table import ResultCell, ResultRow, Table
from tailmask.runs import ResolvedSetting

__all__ = ["count_item"]


def count_item(request: Request) -> PaperItem:
    """Table 7 for MultiMNIST or for other data."""
    data = request.data or "multimnist"
    return PaperItem(f"Table 7: class counts of {data}", (), partial(_answer, request.setting(data)))


def _answer(setting: ResolvedSetting, runs: Runs) -> Answer:
    """The training and test samples per class and in total, and the imbalance ρ."""
    from tailmask.data.class_statistics import summarize

    dataset = load_data(setting.data, setting.options)
    splits = [summarize(split, dataset.classes) for split in (dataset.train, dataset.test)]
    is_paper = setting.data == "multimnist"
    paper = load_paper()["table7"] if is_paper else {}
    rows = []
    for c in splits[0].order:
        stated = [paper[part][c] for part in ("train", "test")] if is_paper else [None, None]
        cells = [
            ResultCell(number, float(split.positives[c]))
            for number, split in zip(stated, splits, strict=True)
        ]
        rows.append(ResultRow(dataset.classes[c], tuple(cells)))
    totals = [paper.get("train_total"), paper.get("test_total")]
    samples = [
        ResultCell(number, float(split.num_samples)) for number, split in zip(totals, splits, strict=True)
    ]
    rows.append(ResultRow("Samples", tuple(samples)))
    counts = Table("Samples of each class", "Class", ("Training", "Test"), tuple(rows), digits=0)
    rho = ResultRow("ρ", (ResultCell(paper.get("rho"), splits[0].rho),))
    imbalance = Table("Imbalance of the training set", "Measure", ("Value",), (rho,))
    note = "The training digits' partners are drawn at random: counts differ from the paper's by chance."
    return Answer((counts, imbalance), notes=(note,) if is_paper else ())
