"""Figures 1 and 7: distributions of a network's outputs for each class, by positives and negatives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from tailmask.data.facts import load_data
from tailmask.paper.items.other_data import chosen_setting
from tailmask.paper.request import Answer, Arm, PaperItem, Request, Runs
from tailmask.paper.result_table import ResultCell, ResultRow, Table
from tailmask.runs import ResolvedSetting, Run

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["bin_names", "output_item", "shares", "training_item"]

NUM_BINS = 10
NUM_ENDS = 2  # classes from either end
# The first ten epochs of a recipe: its warm-up, then its full learning rate.
TEN_EPOCHS = ("schedule.epochs=10", "schedule.milestones=[]", "schedule.factors=[]")


_SPLITS = {"train": "training", "test": "test"}
_NOTES = {
    "test": "The paper does not say which set its figure shows; this is the test set, lowest seed.",
    "train": "The network after the first ten epochs of its schedule (scaled to the budget), lowest seed.",
}


def output_item(request: Request) -> PaperItem:
    """Figure 1: outputs of BCE and PLM on CIFAR-10-LT."""
    setting = chosen_setting(request, "cifar10-lt")
    arms = [Arm(setting, method) for method in ("bce", "plm")]
    title = f"Figure 1: outputs of bce and plm on {setting.data}"
    return PaperItem(title, arms, partial(_answer, arms, split="test"))


def training_item(request: Request) -> PaperItem:
    """Figure 7: outputs on MultiMNIST's training set after ten epochs of BCE, beside the ground truth."""
    data = request.data or "multimnist"
    arms = [Arm(request.setting(data, fields=TEN_EPOCHS), "bce")]
    title = f"Figure 7: outputs on the training set of {data}"
    return PaperItem(title, arms, partial(_answer, arms, split="train"))


def _answer(arms: Sequence[Arm], runs: Runs, *, split: Literal["train", "test"]) -> Answer:
    """Distributions for the most frequent and the rarest classes, of the runs with the lowest seed.

    The figure on the training set also shows the truth.
    """
    from tailmask.comparison.chosen_classes import by_frequency
    from tailmask.report.charts import output_distributions

    found = {arm.method: run for arm in arms for run in runs.find(arm)[:1]}
    if not found:
        return Answer(())
    counts = {method: _counts(run, arms[0].setting, split) for method, run in found.items()}
    config = next(iter(found.values())).config
    names, positives = config["classes"], config["train_counts"][1]
    chosen = _ends(by_frequency(positives), NUM_ENDS)
    rows = [
        ResultRow(
            f"{names[c]} {kind}, {method}",
            tuple(ResultCell(mean=100 * value) for value in shares(values)[label, c].tolist()),
        )
        for label, kind in ((1, "present"), (0, "absent"))
        for c in chosen
        for method, values in counts.items()
    ]
    caption = f"Share of the outputs in each bin, in percent, on the {_SPLITS[split]} set"
    table = Table(caption, "Class, label and method", bin_names(NUM_BINS), tuple(rows), digits=1)
    figure = output_distributions(
        {method: values.numpy() for method, values in counts.items()},
        classes=names,
        train_positives=positives,
        chosen=chosen,
        truth=split == "train",
    )
    return Answer((table,), figure, notes=(_NOTES[split],))


def bin_names(number: int) -> tuple[str, ...]:
    """The names of the bins of outputs between 0 and 1.

    >>> bin_names(2)
    ('0–0.5', '0.5–1')
    """
    return tuple(f"{place / number:g}–{(place + 1) / number:g}" for place in range(number))


def shares(counts: Tensor) -> Tensor:
    """Histograms (2, C, bins) as distributions; all zero for a label that never occurs."""
    return counts / counts.sum(dim=-1, keepdim=True).clamp(min=1)


def _counts(run: Run, setting: ResolvedSetting, split: Literal["train", "test"]) -> Tensor:
    """Histograms (2, C, bins) of a run's outputs."""
    import torch

    from tailmask.functional import histogram

    if split == "test":
        arrays = run.predictions()
        logits, targets = torch.from_numpy(arrays["test_logits"]), torch.from_numpy(arrays["test_targets"])
    else:
        from tailmask.runs.model_file import read_model
        from tailmask.training.split_outputs import all_targets, predict

        train = load_data(setting.data, setting.options).train
        network, _ = read_model(run.folder / "model.safetensors", model=run.config["recipe"]["model"]["name"])
        logits, targets = predict(network, train), all_targets(train)
    known = targets >= 0
    return histogram(logits.sigmoid(), targets.clamp(min=0), NUM_BINS, known=known)


def _ends(order: list[int], number: int) -> list[int]:
    """The first and the last `number` classes of the order.

    >>> _ends([4, 3, 2, 1, 0], 1)
    [4, 0]
    """
    return order if len(order) <= 2 * number else [*order[:number], *order[-number:]]
