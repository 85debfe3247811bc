"""Images per second: our training loop against a conventional one, bf16 against float32, PLM against BCE.

    python benchmarks/training.py [--rounds 8] [--steps 8] [--batch 128] [--threads 2] [--compile]

This is the CIFAR recipe: ResNet-32 at batch 128 on 32×32 images with pad-and-crop and flips. The contestants
take turns of a few steps in one process, in a different order each round, so other load affects all of them
equally. A contestant's time is the lower quartile of all its steps, and contestants are compared by ratios of
these times. `conventional` is the loop of many tutorials: a DataLoader with two workers, Pillow transforms
sample by sample, contiguous layout. The last lines show where the time of a step goes.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import logging
import statistics
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.flop_counter import FlopCounterMode

from tailmask.data.dataset import Dataset, Split
from tailmask.data.encoders.image import ImageEncoder
from tailmask.data.images.in_memory import Images, crop_and_flip
from tailmask.models import build_model
from tailmask.runs import configure
from tailmask.runs.config import Precision
from tailmask.training.run_parts import build_parts
from tailmask.training.with_lightning.lightning_module import TrainingModule

PREFETCHED = 4  # batches: two for each of two workers, the DataLoader's default
Contestant = Callable[[], list[float]]  # seconds of some steps


def synthetic(number: int) -> tuple[Tensor, Tensor]:
    """Random images and labels of ten long-tailed classes; their content does not affect the speed."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (number, 3, 32, 32), dtype=torch.uint8, generator=generator)
    classes = torch.multinomial(0.8 ** torch.arange(10.0), number, replacement=True, generator=generator)
    return pixels, F.one_hot(classes, 10).to(torch.int8)


class PillowImages(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """One image at a time: pad, crop, mirror, to a tensor, normalise."""

    def __init__(self, pixels: Tensor, targets: Tensor) -> None:
        self.pixels = pixels.permute(0, 2, 3, 1).numpy()
        self.targets = targets.float()

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        padded = Image.new("RGB", (40, 40))
        padded.paste(Image.fromarray(self.pixels[index]), (4, 4))
        left, top = torch.randint(9, (2,)).tolist()
        image = padded.crop((left, top, left + 32, top + 32))
        if torch.rand(()) < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255)
        return (tensor - 0.5) / 0.25, self.targets[index]


def conventional(pixels: Tensor, targets: Tensor, *, batch: int) -> Contestant:
    """The loop of many tutorials."""
    torch.manual_seed(0)
    network = build_model("resnet32", shape=(3, 32, 32), num_classes=10)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=2e-4)
    loader = DataLoader(
        PillowImages(pixels, targets), batch, shuffle=True, num_workers=2, persistent_workers=True
    )

    def run() -> list[float]:
        ends = []
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(network(images), labels, reduction="sum") / len(images)
            loss.backward()
            optimizer.step()
            ends.append(time.perf_counter())
        return _differences(ends)

    return run


class Clock(pl.Callback):
    """Callback that records when each step ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_batch_end(self, *_: object) -> None:
        self.ends.append(time.perf_counter())


def training_split(pixels: Tensor, targets: Tensor) -> Split:
    """The images with the recipe's augmentation."""
    return Split(Images(pixels, (0.5,) * 3, (0.25,) * 3, crop_and_flip), targets)


def ours(
    method: str, split: Split, *, batch: int, precision: Precision = "32", compiled: bool = False
) -> Contestant:
    """The project's own module under the Trainer, as `tailmask train` runs it."""
    images = split.inputs
    assert isinstance(images, Images)
    encoder = ImageEncoder(3, 32, 32, images.mean, images.std)
    classes = tuple("0123456789")
    dataset = Dataset("synthetic", classes, split, None, split, encoder, single_label=True)
    config = configure("cifar10-lt", method, fields=[f"schedule.batch_size={batch}"], precision=precision)
    module = TrainingModule(build_parts(config, dataset))
    if compiled:
        module.compiled = torch.compile(module.network.forward, dynamic=False)

    def run() -> list[float]:
        clock = Clock()
        pl.Trainer(
            accelerator="cpu",
            precision="bf16-mixed" if precision == "bf16" else "32-true",
            max_epochs=1,
            callbacks=[clock],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        ).fit(module)
        return _differences(clock.ends)

    return run


def batch_rate(split: Split, *, batch: int) -> float:
    """Images per second if they are only gathered, augmented and normalised, without training."""
    generator = torch.Generator().manual_seed(0)
    seconds = []
    for index in torch.arange(len(split)).split(batch):
        began = time.perf_counter()
        split.batch(index, generator)
        seconds.append(time.perf_counter() - began)
    return batch / statistics.median(seconds)


def gemm_rate(size: int = 1024, seconds: float = 1.0) -> float:
    """The highest number of floating-point operations per second of a square float32 matrix product."""
    first, second = torch.randn(size, size), torch.randn(size, size)
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        first @ second
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best


def step_flops(network: torch.nn.Module) -> int:
    """Floating-point operations of the convolutions in the forward and backward pass of one image."""
    with FlopCounterMode(display=False) as counter:
        network(torch.randn(2, 3, 32, 32)).sum().backward()
    return counter.get_total_flops() // 2


def account(steps: int, *, batch: int) -> list[tuple[str, float]]:
    """Seconds of each kind of operation in one step, the longest first."""
    network = build_model("resnet32", shape=(3, 32, 32), num_classes=10).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, fused=True)
    images = torch.randn(batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)

    def step() -> None:
        network(images).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    with torch.profiler.profile() as profile:
        for _ in range(steps):
            step()
    times: dict[str, float] = {}
    for event in profile.key_averages():
        times[_kind(event.key)] = times.get(_kind(event.key), 0.0) + event.self_cpu_time_total / 1e6 / steps
    return sorted(times.items(), key=lambda item: -item[1])


def _kind(name: str) -> str:
    kinds = {
        "convolution_backward": "convolutions, backward",
        "mkldnn_convolution": "convolutions, forward",
        "native_batch_norm_backward": "batch normalisation, backward",
        "native_batch_norm": "batch normalisation, forward",
        "threshold_backward": "rectifier, backward",
        "clamp_min_": "rectifier, forward",
        "add_": "additions of shortcuts and gradients",
    }
    return kinds.get(name.removeprefix("aten::"), "all else")


def _differences(ends: list[float]) -> list[float]:
    """Seconds of the steps without the first and without the last ones, which have no batches to load."""
    return [after - before for before, after in itertools.pairwise(ends)][:-PREFETCHED]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8, help="timed steps per contestant and round")
    parser.add_argument("--batch", type=int, default=128, help="images per step")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--compile", action="store_true", help="time the compiled network as well")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    batch = arguments.batch
    pixels, targets = synthetic(batch * (1 + arguments.steps + PREFETCHED))
    split = training_split(pixels, targets)
    contestants = {
        "conventional": conventional(pixels, targets, batch=batch),
        "ours, bce": ours("bce", split, batch=batch),
        "ours, plm": ours("plm", split, batch=batch),
        "ours, bce, bf16": ours("bce", split, batch=batch, precision="bf16"),
        "ours, plm, bf16": ours("plm", split, batch=batch, precision="bf16"),
    }
    if arguments.compile:
        contestants["ours, plm, compiled"] = ours("plm", split, batch=batch, compiled=True)
    steps: dict[str, list[float]] = {name: [] for name in contestants}
    rates = []
    with _quiet():
        for number in range(arguments.rounds + 1):
            rates.append(gemm_rate(seconds=0.3))
            first = number % len(contestants)
            for name in [*contestants][first:] + [*contestants][:first]:
                seconds = contestants[name]()
                if number:  # the first round warms up
                    steps[name].extend(seconds)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {arguments.rounds} rounds\n")
    typical = {name: statistics.quantiles(seconds, n=4)[0] for name, seconds in steps.items()}
    for name, seconds in typical.items():
        print(f"{name:<20} {batch / seconds:7.1f} images/s, best step {batch / min(steps[name]):7.1f}")
    print(f"\nours over conventional   {typical['conventional'] / typical['ours, bce']:.2f}")
    print(f"plm over bce             {typical['ours, bce'] / typical['ours, plm']:.3f}")
    print(f"plm over bce, bf16       {typical['ours, bce, bf16'] / typical['ours, plm, bf16']:.3f}")
    print(f"bf16 over float32, bce   {typical['ours, bce'] / typical['ours, bce, bf16']:.2f}")
    print(f"bf16 over float32, plm   {typical['ours, plm'] / typical['ours, plm, bf16']:.2f}")
    rate = batch_rate(split, batch=batch) * typical["ours, bce, bf16"] / batch
    print(f"batches alone over bf16  {rate:.0f}")
    if arguments.compile:
        print(f"compiled over eager      {typical['ours, plm'] / typical['ours, plm, compiled']:.2f}")
    flops, rate = step_flops(build_model("resnet32", shape=(3, 32, 32), num_classes=10)), max(rates)
    print(f"\nmatrix products          {rate / 1e9:.0f} GFLOP/s")
    print(f"a training step reaches  {flops * batch / min(steps['ours, bce']) / rate:.2f} of that")
    parts = account(steps=4, batch=batch)
    whole = sum(seconds for _, seconds in parts)
    convolutions = sum(seconds for name, seconds in parts if name.startswith("convolutions"))
    print(f"its convolutions alone   {flops * batch / convolutions / rate:.2f}\n\nwhere a step's time goes:")
    for name, seconds in parts:
        print(f"{100 * seconds / whole:6.1f} %  {name}")


if __name__ == "__main__":
    main()
