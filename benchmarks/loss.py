"""Time of PLM's forward, backward and statistics, as multiples of plain binary cross-entropy.

    python benchmarks/loss.py [--seconds 2] [--no-compile] [--resnet]

All use one thread and take turns in one process, a few calls per turn; the best of many counts. `port` is a
PLM that computes its histograms with `np.histogram`, class by class. Only the ratios count, not the times.

The second line of each shape shows why the kernels exist: each one next to the plain function that it
replaces, also as multiples of the cross-entropy. `floor` is the sum of the cross-entropy, the fast draw and
the fast histogram (with its sigmoid), measured separately.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tailmask import PartialLabelMasking, functional
from tailmask.masking import kernels

CALLS = 5  # calls of a contestant per turn
SHAPES = ((128, 10), (128, 80), (128, 1000), (256, 10000))
Contestant = Callable[[Tensor, Tensor], Tensor]


def focal(logits: Tensor, targets: Tensor) -> Tensor:
    probability = torch.sigmoid(logits)
    cross_entropy = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    right = probability * targets + (1 - probability) * (1 - targets)
    return (cross_entropy * (1 - right) ** 2).mean()


def asymmetric(logits: Tensor, targets: Tensor) -> Tensor:
    positive = torch.sigmoid(logits)
    negative = (1 - positive + 0.05).clamp(max=1)
    log_likelihood = targets * positive.clamp(min=1e-8).log() + (1 - targets) * negative.clamp(min=1e-8).log()
    right = positive * targets + negative * (1 - targets)
    return -(log_likelihood * (1 - right) ** (targets + 4 * (1 - targets))).mean()


class NumpyPort:
    """PLM in the obvious way: a drawn mask, and np.histogram for every class and label."""

    def __init__(self, keep: Tensor) -> None:
        self.keep = keep
        self.counts = np.zeros((2, keep.shape[1], 10), dtype=np.int64)

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        mask = torch.bernoulli(torch.where(targets > 0.5, self.keep[1], self.keep[0]))
        probabilities = torch.sigmoid(logits.detach()).numpy()
        labels = targets.numpy() > 0.5
        for index in range(labels.shape[1]):
            for label in (0, 1):
                chosen = probabilities[labels[:, index] == label, index]
                self.counts[label, index] += np.histogram(chosen, bins=10, range=(0, 1))[0]
        return (mask * F.binary_cross_entropy_with_logits(logits, targets, reduction="none")).mean()


def contestants(targets: Tensor, *, compiled: bool) -> dict[str, Contestant]:
    positives = targets.sum(dim=0).clamp(min=1)
    plm = PartialLabelMasking.from_counts(positives, targets.shape[0] - positives, initial_ratio="mean")
    chosen: dict[str, Contestant] = {
        "bce": F.binary_cross_entropy_with_logits,
        "focal": focal,
        "asl": asymmetric,
        "plm": plm,
    }
    if compiled:
        chosen["plm, compiled"] = torch.compile(plm, fullgraph=True)
    if targets.shape[1] <= 1000:
        chosen["port"] = NumpyPort(plm.keep)
    return chosen


def best_times(
    chosen: dict[str, Contestant], logits: Tensor, targets: Tensor, seconds: float
) -> dict[str, float]:
    best = dict.fromkeys(chosen, float("inf"))
    for warm_up in chosen.values():
        warm_up(logits, targets).backward()
    end = time.perf_counter() + seconds * len(chosen)
    while time.perf_counter() < end:
        for (name, criterion), _ in itertools.product(chosen.items(), range(CALLS)):
            logits.grad = None
            start = time.perf_counter()
            criterion(logits, targets).backward()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def plain_masked(logits: Tensor, targets: Tensor, keep: Tensor, counts: Tensor) -> Tensor:
    """The result of the fused kernels, computed with the plain functions."""
    counts += functional.histogram(logits.detach().sigmoid(), targets)
    mask = functional.draw(functional.label_keep(keep, targets))
    return F.binary_cross_entropy_with_logits(logits, targets, weight=mask)


def part_times(logits: Tensor, targets: Tensor, keep: Tensor, seconds: float) -> dict[str, float]:
    counts = torch.zeros(2, targets.shape[1], 10, dtype=torch.int64)
    given = logits.detach()

    def fused() -> Tensor:
        if kernels.is_large(logits):
            return kernels.masked_cross_entropy(
                logits, targets, keep, counts=counts, scale=1 / targets.numel()
            )
        return kernels.small_masked_cross_entropy(logits, targets, keep.unbind(), counts=counts)

    parts: dict[str, Callable[[], object]] = {
        "histogram": lambda: kernels.add_histogram(counts, given, targets),
        "plain histogram": lambda: counts.add_(functional.histogram(given.sigmoid(), targets)),
        "draw": lambda: kernels.draw(keep, targets),
        "plain draw": lambda: functional.draw(functional.label_keep(keep, targets)),
        "check": lambda: kernels.is_small_and_plain(given, targets, counts),
        "fused": lambda: fused().backward(),
        "plain fused": lambda: plain_masked(logits, targets, keep, counts).backward(),
    }
    best = dict.fromkeys(parts, float("inf"))
    end = time.perf_counter() + seconds * len(parts)
    while time.perf_counter() < end:
        for (name, part), _ in itertools.product(parts.items(), range(CALLS)):
            logits.grad = None
            start = time.perf_counter()
            part()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def share_of_resnet_step(seconds: float) -> float:
    from tailmask.models import build_model

    model = build_model("resnet12", shape=(1, 32, 32), num_classes=10)
    images, targets = torch.rand(128, 1, 32, 32), (torch.rand(128, 10) < 0.2).float()
    plm = PartialLabelMasking.from_targets(targets, initial_ratio="mean")
    step = best_times({"step": lambda _, targets: plm(model(images), targets)}, images, targets, seconds)
    logits = torch.randn(128, 10, requires_grad=True)
    return best_times({"plm": plm}, logits, targets, seconds)["plm"] / step["step"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each contestant")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--resnet", action="store_true", help="also the share of a ResNet-12 training step")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    # Freeing a large block makes the C library keep freed memory, as the activations of any model do.
    # Without it, the time of page faults hides the time to measure.
    torch.zeros(7 * 2**20)
    for batch, classes in SHAPES:
        logits = torch.randn(batch, classes, requires_grad=True)
        targets = (torch.rand(batch, classes) < 0.05).float()
        times = best_times(
            contestants(targets, compiled=not options.no_compile), logits, targets, options.seconds
        )
        row = "  ".join(f"{name} {time / times['bce']:.2f}" for name, time in times.items())
        print(f"({batch}, {classes})  bce {times['bce'] * 1e6:.0f} µs = 1;  {row}", flush=True)
        ratio = (targets.mean(dim=0) + 0.01).expand(classes)
        keep = functional.keep_probability(ratio, ratio.mean().expand(classes))
        parts = part_times(logits, targets, keep, options.seconds / 2)
        floor = times["bce"] + parts["draw"] + parts["histogram"]
        row = "  ".join(f"{name} {time / times['bce']:.2f}" for name, time in parts.items())
        print(
            f"    {row};  floor {floor / times['bce']:.2f}, plm {times['plm'] / floor:.2f} of it", flush=True
        )
    if options.resnet:
        print(f"share of a ResNet-12 training step at batch 128: {share_of_resnet_step(options.seconds):.2%}")


if __name__ == "__main__":
    main()
