"""The spread that intervals assume, as a share of the true spread over new draws of test digits.

    python benchmarks/clusters.py [--draws 400] [--bootstraps 40]

Two small networks are trained on MultiMNIST. Each draw takes 60 MNIST test digits of each class and makes
5400 images of pairs, as `digits` does. The standard deviation of F1 over all draws is the true spread. On
some draws three bootstraps are compared: of images, of digits within their class, of digits across classes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tailmask.comparison.clusters import common_labels, numbered, pair_numbers
from tailmask.comparison.intervals import PairedDifferences
from tailmask.comparison.resampling import Resampler, Resamples
from tailmask.data import DataOptions, Dataset, load
from tailmask.data.images.digit_pairs import one_of_each_other, superimpose, union
from tailmask.data.public.download import MNIST, provide
from tailmask.data.public.portable_draws import Draws
from tailmask.data.readers.idx import read_idx
from tailmask.metrics import Evaluation

DIGITS, EPOCHS = 60, 12
NAMES = ("F1 of one", "F1 of the other", "difference", *(f"difference, {c}" for c in range(10)))


def train(dataset: Dataset, *, power: float) -> nn.Module:
    """A trained network with one hidden layer; positives have the weight (negatives / positives) ** power."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(32 * 32, 200), nn.ReLU(), nn.Linear(200, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    negatives, positives = dataset.train.counts()
    for _ in range(EPOCHS):
        for index in torch.randperm(len(dataset.train)).split(128):
            inputs, targets = dataset.train.batch(index)
            loss = F.binary_cross_entropy_with_logits(
                network(inputs), targets, pos_weight=(negatives / positives) ** power
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network.eval()


def draws(networks: list[nn.Module], number: int, folder: Path) -> Iterator[tuple[Tensor, list[Evaluation]]]:
    """For each draw, the digits (N, 2) of its images and both networks' outputs."""
    pixels = torch.from_numpy(read_idx(folder / "t10k-images-idx3-ubyte.gz", num_dimensions=3).copy())
    labels = read_idx(folder / "t10k-labels-idx1-ubyte.gz", num_dimensions=1).astype(np.int64)
    for seed in range(number):
        draw = Draws(seed)
        order = draw.permutation(len(labels))
        taken = np.concatenate([order[labels[order] == c][:DIGITS] for c in range(10)])
        pairs = taken[one_of_each_other(labels[taken], draw)]
        corners = torch.from_numpy(draw.below(13, (len(pairs), 2, 2)) - 4)
        images = superimpose(pixels, torch.from_numpy(pairs), corners, size=32) / 255.0
        targets = union(labels, pairs)
        with torch.inference_mode():
            found = [Evaluation(network(images), targets, ks=()) for network in networks]
        yield torch.from_numpy(pairs), found


def values(found: list[Tensor]) -> Tensor:
    """From F1 (…, C) of both networks: each mean F1, their difference, and the difference of each class."""
    one, two = found
    return torch.cat([torch.stack([one.mean(-1), two.mean(-1), (two - one).mean(-1)], -1), two - one], dim=-1)


def assumed(members: Tensor, found: list[Evaluation], *, how: str) -> Tensor:
    """The standard deviation that the interval of each value assumes, (13,)."""
    members, targets = numbered(members), found[0].labels

    def resampled(**options: Tensor) -> Tensor:
        resampler = Resampler(*targets.shape, **options)
        return values([_classes(resampler.resample(each)) for each in found])

    pairs, point = PairedDifferences(), values([each.report().per_class["f1"] for each in found])
    by_member = None
    if how != "images":
        strata = {"strata": common_labels(members, targets)} if how == "digits within their class" else {}
        by_member = resampled(clusters=members, **strata)
    pairs.add(point, resampled(clusters=pair_numbers(members)), by_member=by_member)
    low, high = pairs.interval()
    return (high - low) / (2 * 1.96)


def _classes(resamples: Resamples) -> Tensor:
    return resamples.classes.to(torch.float64)


def main() -> None:
    """Train, draw and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--bootstraps", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    options = DataOptions()
    dataset = load("multimnist", options)
    networks = [train(dataset, power=power) for power in (0.0, 0.5)]
    points, assumptions = (
        [],
        {how: [] for how in ("images", "digits within their class", "digits across classes")},
    )
    for number, (members, found) in enumerate(
        draws(networks, arguments.draws, provide(MNIST, options) / "mnist")
    ):
        points.append(values([each.report().per_class["f1"] for each in found]))
        if number < arguments.bootstraps:
            for how, rows in assumptions.items():
                rows.append(assumed(members, found, how=how))
    true = torch.stack(points).std(dim=0)
    print("mean", dict(zip(NAMES[:3], torch.stack(points).mean(dim=0).tolist(), strict=False)))
    for how, rows in assumptions.items():
        shares = torch.stack(rows).square().mean(dim=0).sqrt() / true
        print(
            f"{how}: " + ", ".join(f"{name} {share:.2f}" for name, share in zip(NAMES, shares, strict=True))
        )


if __name__ == "__main__":
    main()
