"""A small module and trainer of either Lightning, and the same training in plain torch."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tailmask import PartialLabelMasking
from tailmask.integrations.lightning import PLMCallback

NUM_BATCHES, BATCH_SIZE = 6, 8


def make_data(num_batches: int = NUM_BATCHES, seed: int = 0) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(num_batches * BATCH_SIZE, 5, generator=generator)
    rare = torch.rand(len(inputs), 3, generator=generator) < torch.tensor([0.6, 0.3, 0.15])
    return TensorDataset(inputs, (rare | (inputs[:, :3] > 1.2)).float())


class ResumableLoader(DataLoader):
    """A loader that can go on in the middle of an epoch, which Lightning asks of mid-epoch checkpoints."""

    skipped = position = 0

    def __iter__(self):
        skipped, self.skipped = self.skipped, 0
        self.position = skipped
        for batch in list(super().__iter__())[skipped:]:
            self.position += 1
            yield batch

    def state_dict(self):
        return {"position": self.position % len(self)}

    def load_state_dict(self, state):
        self.skipped = state["position"]


def make_parts(**options) -> tuple[nn.Linear, PartialLabelMasking]:
    model = nn.Linear(5, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-1.0, 1.0, parameter.numel()).view_as(parameter))
    generator = torch.Generator().manual_seed(7)
    options = {"rate": 0.5, "generator": generator, "num_bins": 4} | options
    return model, PartialLabelMasking.from_targets(make_data().tensors[1], **options)


def make_module(package: ModuleType, **options):
    class Module(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.criterion = make_parts(**options)
            self.ratios: list[torch.Tensor] = []

        def training_step(self, batch, batch_idx):
            self.ratios.append(self.criterion.target_ratio.clone())
            return self.criterion(self.model(batch[0]), batch[1])

        def validation_step(self, batch, batch_idx):
            self.log("val_loss", self.criterion(self.model(batch[0]), targets=batch[1]))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5)

    return Module()


def make_trainer(package: ModuleType, root: Path, *, callbacks=(), **options):
    options = {"max_epochs": 3, "logger": False, "enable_checkpointing": False} | options
    return package.Trainer(
        accelerator="cpu",
        devices=1,
        default_root_dir=root,
        callbacks=list(callbacks) or PLMCallback(),
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


def train_plainly(*, num_epochs: int = 3, accumulate: int = 1, validate: bool = False, **options):
    """The same training as a loop, without Lightning."""
    model, criterion = make_parts(**options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(num_epochs):
        for index, (inputs, targets) in enumerate(DataLoader(make_data(), BATCH_SIZE)):
            (criterion(model(inputs), targets) / accumulate).backward()
            if (index + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        if validate:
            inputs, targets = make_data(3, seed=1).tensors
            criterion.update(model(inputs), targets)
        criterion.step()
    return model, criterion


def assert_same(module, expected) -> None:
    model, criterion = expected
    assert criterion.num_steps > 0
    torch.testing.assert_close(module.criterion.num_steps, criterion.num_steps)
    torch.testing.assert_close(module.criterion.target_ratio, criterion.target_ratio)
    torch.testing.assert_close(module.criterion.counts, criterion.counts)
    torch.testing.assert_close(module.model.weight, model.weight)


def loaders(validation: bool = False):
    train = ResumableLoader(make_data(), BATCH_SIZE)
    return (train, DataLoader(make_data(3, seed=1), BATCH_SIZE)) if validation else (train,)
