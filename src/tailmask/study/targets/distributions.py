"""Figures 1 and 7: distributions of a network's outputs, by class, where it is present and where not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tailmask.study.drawing import Bars, draw_bars
from tailmask.study.plan import Setting
from tailmask.study.request import Answer, FindRuns, Part, Request
from tailmask.study.tables import Cell, Row, Table
from tailmask.study.targets.own import own_setting
from tailmask.study.targets.scores import by_frequency
from tailmask.training import Run

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DistributionTarget", "output_target", "shares", "training_target"]

NUM_BINS = 10
# The first ten epochs of a recipe: its warm-up, then its full learning rate.
TEN_EPOCHS = ("schedule.epochs=10", "schedule.milestones=[]", "schedule.factors=[]")


@dataclass(frozen=True)
class DistributionTarget:
    """Distributions over ten bins of the outputs for the most frequent and the rarest classes."""

    title: str
    setting: Setting
    methods: tuple[str, ...]
    split: Literal["train", "test"]
    num_classes: int  # from either end
    with_truth: bool = False

    @property
    def parts(self) -> list[Part]:
        """What is to be trained."""
        return [Part(self.setting, method) for method in self.methods]

    def answer(self, find: FindRuns) -> Answer:
        """The distributions of the run with the lowest seed, as a table and as a figure."""
        rows: list[Row] = []
        pictures: list[list[Bars]] = []
        for part in self.parts:
            for run in find(part)[:1]:
                distributions = shares(_outputs(run, self.setting, self.split))  # (2, C, bins)
                for label, kind in ((1, "present"), (0, "absent")):
                    line = [Bars("ground truth", _truth(label))] if self.with_truth else []
                    for c, name in _ends(run, self.num_classes):
                        values = distributions[label, c].tolist()
                        title = f"{name} {kind}, {part.method}"
                        line.append(Bars(title, values))
                        rows.append(Row(title, tuple(Cell(mean=100 * value) for value in values)))
                    pictures.append(line)
        if not rows:
            return Answer(())
        edges = tuple(f"{number / NUM_BINS:g}–{(number + 1) / NUM_BINS:g}" for number in range(NUM_BINS))
        caption = f"Share of the outputs in each bin, in percent, on the {_SPLITS[self.split]} set"
        table = Table(caption, "Class, label and method", edges, tuple(rows), digits=1)
        return Answer((table,), draw_bars(pictures, ylabel="share"), notes=_NOTES[self.split])


_SPLITS = {"train": "training", "test": "test"}
_NOTES = {
    "test": ("The paper does not say which set its figure is of; this is the test set, lowest seed.",),
    "train": (
        "Of the network after the first ten epochs of its schedule (scaled to the budget), lowest seed.",
    ),
}


def output_target(request: Request) -> DistributionTarget:
    """Figure 1: outputs of BCE and PLM on CIFAR-10-LT."""
    data = request.data or "cifar10-lt"
    setting = request.setting(data) if request.data is None else own_setting(request, data)[0]
    return DistributionTarget(
        f"Figure 1: outputs of bce and plm on {data}", setting, ("bce", "plm"), "test", num_classes=2
    )


def training_target(request: Request) -> DistributionTarget:
    """Figure 7: outputs on MultiMNIST's training set after ten epochs of BCE, beside the ground truth."""
    data = request.data or "multimnist"
    setting = request.setting(data, fields=TEN_EPOCHS)
    return DistributionTarget(
        f"Figure 7: outputs on the training set of {data}", setting, ("bce",), "train", 2, with_truth=True
    )


def shares(counts: Tensor) -> Tensor:
    """Histograms (2, C, bins) as distributions; those of a label that never occurs are all zero."""
    return counts / counts.sum(dim=-1, keepdim=True).clamp(min=1)


def _outputs(run: Run, setting: Setting, split: Literal["train", "test"]) -> Tensor:
    """Histograms (2, C, bins) of a run's outputs."""
    import torch

    from tailmask.functional import histogram

    if split == "test":
        arrays = run.predictions()
        logits, targets = torch.from_numpy(arrays["test_logits"]), torch.from_numpy(arrays["test_targets"])
    else:
        from tailmask.data import load
        from tailmask.training.evaluation import all_targets, predict
        from tailmask.training.weights import load_model

        train = load(setting.data, setting.options).train
        network, _ = load_model(run.folder / "model.safetensors", model=run.config["recipe"]["model"]["name"])
        logits, targets = predict(network, train), all_targets(train)
    known = targets >= 0
    return histogram(logits.sigmoid(), targets.clamp(min=0), NUM_BINS, known=known)


def _ends(run: Run, number: int) -> list[tuple[int, str]]:
    """The most frequent and the rarest classes of a run's data, with their names."""
    order = by_frequency(run.config["train_counts"][1])
    chosen = order if len(order) <= 2 * number else [*order[:number], *order[-number:]]
    return [(c, run.config["classes"][c]) for c in chosen]


def _truth(label: int) -> Sequence[float]:
    values = [0.0] * NUM_BINS
    values[-1 if label else 0] = 1.0
    return values
