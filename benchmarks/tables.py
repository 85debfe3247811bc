"""Time of `tailmask train` on tables and of a plain PyTorch loop with the same network, batches and epochs.

    TAILMASK_DATA=... python benchmarks/tables.py [--rounds 3] [--epochs 60]

The data are Mulan's yeast and tmc2007-500 from `$TAILMASK_DATA/mulan`, with the recipe `tables`. Our time is
that of the whole run: the objective, validation after each epoch, history, checkpoints, evaluation and the
model file. The plain loop only trains, with binary cross-entropy. All use one thread and take turns in one
process. Times are seconds of CPU time, best of the rounds, so other load counts little. The ratios must stay
below 1.3 for bce and 1.5 for plm; 8 members must cost at most 4 times one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from tailmask.data import load
from tailmask.data.dataset import Dataset
from tailmask.models import build_model
from tailmask.runs import RunConfig, configure
from tailmask.training import train

CASES = (("yeast", "yeast/yeast-train.arff"), ("tmc2007-500", "tmc2007/tmc2007-500-train.arff"))


def plain(config: RunConfig, dataset: Dataset) -> None:
    """Train with the loop of a tutorial."""
    recipe = config.recipe
    inputs, targets = dataset.train.batch(torch.arange(len(dataset.train)))
    network = build_model(
        recipe.model.name,
        shape=dataset.shape,
        num_classes=len(dataset.classes),
        hidden=recipe.model.hidden,
        dropout=recipe.model.dropout,
    )
    optimizer = torch.optim.Adam(
        network.parameters(), lr=recipe.optimizer.lr, weight_decay=recipe.optimizer.weight_decay, fused=True
    )
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(recipe.schedule.epochs):
        for index in torch.randperm(len(inputs)).split(recipe.schedule.batch_size):
            loss = criterion(network(inputs[index]), targets[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def ours(config: RunConfig, dataset: Dataset) -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder) / "run", dataset=dataset)


def contestants(path: str, num_epochs: int) -> dict[str, Callable[[], None]]:
    dataset = load(path)

    def config(method: str, *fields: str) -> RunConfig:
        return configure(path, method, recipe="tables", epochs=num_epochs, folds=1, fields=fields)

    return {
        "plain": lambda: plain(config("bce"), dataset),
        "bce": lambda: ours(config("bce"), dataset),
        "plm": lambda: ours(config("plm"), dataset),
        "members": lambda: ours(config("bce", "model.members=8"), dataset),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if "TAILMASK_DATA" not in os.environ:
        parser.error("set TAILMASK_DATA to the folder that contains Mulan's sets in mulan/")
    folder = Path(os.environ["TAILMASK_DATA"]) / "mulan"
    print("seconds; in brackets: multiples of the plain loop")
    print(f"{'data':<12} {'plain':>6} {'bce':>13} {'plm':>13} {'8 members':>13}")
    for name, file in CASES:
        runs = contestants(str(folder / file), options.epochs)
        times: dict[str, list[float]] = {each: [] for each in runs}
        for _ in range(options.rounds + 1):
            for each, run in runs.items():
                began = time.process_time()
                run()
                times[each].append(time.process_time() - began)
        best = {each: min(values[1:]) for each, values in times.items()}  # the first round loads libraries
        plain_time = best.pop("plain")
        cells = [f"{value:.2f} ({value / plain_time:.2f})" for value in best.values()]
        print(f"{name:<12} {plain_time:>6.2f} {' '.join(f'{cell:>13}' for cell in cells)}", flush=True)


if __name__ == "__main__":
    main()
