"""Finished runs and models to predict with, trained in a second or not at all."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tailmask.data import DataOptions
from tailmask.data.encoders.encoder import Encoder
from tailmask.inference import Predictor
from tailmask.inference.classifier import Classifier
from tailmask.inference.label_decision import LabelDecision
from tailmask.models import build_model
from tailmask.runs import configure
from tailmask.runs.model_file import ModelDescription, save_model
from tailmask.training import train

NUM_COLOURS = ("red", "green", "blue")


def write_table(path: Path, number: int, *, labels: bool = True, seed: int = 0) -> Path:
    """A table with a code such as 0007, two features and three labels, the last of them rare."""
    generator = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["code", "colour", "age"] + ["tag_a", "tag_b", "tag_c"] * labels)
        for row in range(number):
            age, colour = generator.normal(), NUM_COLOURS[generator.integers(3)]
            tags = [int(age > 0), int(colour == "red"), int(age > 1.2)]
            writer.writerow([f"{row:04d}", colour, round(age, 4)] + tags * labels)
    return path


def train_table(folder: Path, *, method: str = "plm:rate=0.3", **settings: Any) -> Path:
    """A run on a table of 300 rows, whose model is a little network in `folder / "run"`."""
    data = write_table(folder / "data.csv", 300)
    options = DataOptions(labels="tag_*", features="colour,age")
    fields = settings.pop("fields", ["model.hidden=[8]", "optimizer.lr=0.05"])
    config = configure(
        str(data), method, epochs=3, recipe="tables", options=options, fields=fields, **settings
    )
    return train(config, folder / "run").folder


def train_digits(folder: Path) -> Path:
    """A run of one epoch on the digits."""
    return train(configure("digits", "plm", epochs=1), folder / "run").folder


def train_single(folder: Path, method: str = "ldam+drw") -> Path:
    """A run with one label a sample, and cosines times a scale as logits."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(300, 5)).astype(np.float32)
    classes = (inputs[:, 0] > 0).astype(np.int64) + (inputs[:, 1] > 1)
    np.savez(folder / "single.npz", X=inputs, Y=classes)
    config = configure(str(folder / "single.npz"), method, epochs=2, fields=["model.hidden=[8]"])
    return train(config, folder / "run").folder


def describe(**changes: Any) -> ModelDescription:
    """The description of a linear model with three inputs and two classes, but for the changes."""
    return replace(
        ModelDescription(
            method="plm",
            classes=("cat", "dog"),
            shape=(3,),
            model={"name": "linear"},
            encoder={"kind": "unknown"},
            single_label=False,
            activation="sigmoid",
            logit_scale=1.0,
            threshold=0.5,
            thresholds=(0.3, 0.6),
            prior_shift=(0.5, -1.0),
        ),
        **changes,
    )


def random_model(path: Path, **changes: Any) -> Path:
    """A file with a model whose weights, and statistics of batch normalisation, are random."""
    description = describe(**changes)
    arguments = {"shape": description.shape, "num_classes": len(description.classes)}
    network = build_model(**{**description.model, **arguments})
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.0)
    save_model(path, network, description)
    return path


@dataclass(frozen=True)
class MadeInputs(Encoder):
    """An encoder that makes its inputs as they are asked for, and remembers who did."""

    pieces: list[Tensor]
    taken: list[int]
    kind = "made"
    shape = (3,)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def batches(self, path: Path, batch_size: int) -> Iterator[Tensor]:
        for number, piece in enumerate(self.pieces):
            self.taken.append(number)
            yield piece.clone()


def predictor_of(encoder: Encoder, network: nn.Module, **changes: Any) -> Predictor:
    """A predictor with an encoder and a network of the test's own."""
    description = describe(**changes)
    thresholds = torch.full((len(description.classes),), 0.5)
    predictor = Predictor(Classifier(network), description, LabelDecision(thresholds), torch.device("cpu"))
    vars(predictor)["encoder"] = encoder  # in place of the one that the description names
    return predictor
