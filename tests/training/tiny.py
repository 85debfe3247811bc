"""A data set that trains in moments, for tests of everything around training."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tailmask.data.dataset import Dataset, Split
from tailmask.data.encoders.encoder import Encoder
from tailmask.runs import RunConfig, configure

NUM_CLASSES = 4


class PlainEncoder(Encoder):
    """Stands for any encoder."""

    kind = "plain"
    shape = (6,)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def batches(self, path: Path, batch_size: int) -> Iterator[Tensor]:
        raise NotImplementedError


def tiny_dataset(*, validation: bool = True, single_label: bool = False, number: int = 203) -> Dataset:
    """Features that say something about imbalanced labels; 203 samples leave a last batch of 11."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(6, NUM_CLASSES, generator=generator)

    def split(size: int) -> Split:
        inputs = torch.randn(size, 6, generator=generator)
        scores = inputs @ weights + torch.randn(size, NUM_CLASSES, generator=generator)
        if single_label:
            targets = torch.nn.functional.one_hot(
                (scores + torch.tensor([2.0, 0, 0, 0])).argmax(1), NUM_CLASSES
            )
        else:
            targets = scores > torch.tensor([-0.5, 1.0, 3.0, 4.5])
        return Split(inputs, targets.to(torch.int8))

    return Dataset(
        name="tiny",
        classes=("a", "b", "c", "d"),
        train=split(number),
        validation=split(60) if validation else None,
        test=split(100),
        encoder=PlainEncoder(),
        single_label=single_label,
        source={"name": "tiny", "single_label": single_label, "validation": validation},
    )


def tiny_config(method: str = "plm:rate=0.5", *, epochs: int = 4, **arguments: Any) -> RunConfig:
    """A configuration with momentum, dropout, warm-up and milestones, so that all of them are tested."""
    fields = [
        "model.hidden=[16]",
        "model.dropout=0.3",
        "optimizer.name=sgd",
        "optimizer.lr=0.1",
        "schedule.batch_size=32",
        *arguments.pop("fields", ()),
    ]
    arguments.setdefault("recipe", "tables")
    return configure("tiny.csv", method, epochs=epochs, fields=fields, **arguments)


def lightning_config(method: str = "plm:rate=0.5", *, epochs: int = 4) -> RunConfig:
    """The same with a network of the user's own, which Lightning trains."""
    fields = ["model.name=training.factories:plain", "model.hidden=[]", "model.dropout=0"]
    return tiny_config(method, epochs=epochs, fields=fields)


def without_times(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A history without what differs from one machine or moment to the next."""
    return [{name: value for name, value in record.items() if name != "seconds"} for record in history]


def same_bytes(first: Path, second: Path) -> bool:
    """Whether two complete runs have the same weights, predictions and metrics, to the last bit."""
    names = ["model.safetensors", "predictions.npz", "metrics.json"]
    names += ["decisions.json"] if (first / "decisions.json").exists() else []  # not for one label a sample
    return all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


class Interrupter:
    """A progress that raises an error at a certain step of a certain epoch, and remembers what it hears."""

    def __init__(
        self, epoch: int = 0, *, error: BaseException | None = None, after_record: bool = False
    ) -> None:
        self.epoch, self.error, self.after_record = epoch, error, after_record
        self.notes: list[str] = []
        self.calls: list[str] = []
        self.records: list[dict[str, Any]] = []
        self.done = -1

    def note(self, text: str) -> None:
        self.notes.append(text)

    def begin(self, *, done: int, total: int) -> None:
        self.calls.append("begin")
        self.done = done

    def step(self, *, epoch: int, share: float, loss: float, num_samples: int) -> None:
        self.calls.append("step")
        if self.error is not None and epoch == self.epoch and not self.after_record:
            raise self.error

    def record(self, record: Any) -> None:
        self.records.append(dict(record))
        if self.error is not None and record["epoch"] == self.epoch and self.after_record:
            raise self.error

    def end(self) -> None:
        self.calls.append("end")


def replaced(config: RunConfig, **changes: Any) -> RunConfig:
    """The configuration with some of its values replaced."""
    return dataclasses.replace(config, **changes)
