"""Networks as users write them, by import path: `training.factories:NAME`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def plain(shape: Sequence[int], num_classes: int) -> nn.Module:
    """A small network, which Lightning trains since it is the user's own."""
    return nn.Sequential(nn.Linear(shape[0], 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, num_classes))


def normed(shape: Sequence[int], num_classes: int) -> nn.Module:
    """Batch normalisation that cannot take a single row."""
    return nn.Sequential(
        nn.Linear(shape[0], 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, num_classes)
    )


# The modes of the layers of `frozen` in each batch that gradients were computed for.
TRAINED_MODES: list[tuple[bool, ...]] = []


def frozen(shape: Sequence[int], num_classes: int) -> nn.Module:
    """The same with statistics that are to stay as they are."""
    network = normed(shape, num_classes)
    network[1].eval()

    def note_modes(layers: nn.Module, _: object) -> None:
        if torch.is_grad_enabled():
            TRAINED_MODES.append(tuple(layer.training for layer in layers.children()))

    network.register_forward_pre_hook(note_modes)
    return network


def positional(features: Sequence[int], classes: int) -> nn.Module:
    """Arguments by other names than they are called by."""
    return nn.Linear(features[0], classes)


def broken(shape: Sequence[int], num_classes: int) -> nn.Module:
    """A mistake in the user's own code."""
    return nn.Linear({}["width"], num_classes)


def narrow(shape: Sequence[int], num_classes: int) -> nn.Module:
    """Inputs of another width than the data have."""
    return nn.Linear(shape[0] + 1, num_classes)


def fewer(shape: Sequence[int], num_classes: int) -> nn.Module:
    """An output too few."""
    return nn.Linear(shape[0], num_classes - 1)


class Paired(nn.Module):
    """Logits beside something else: always, or in training only."""

    def __init__(self, shape: Sequence[int], num_classes: int, *, always: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(shape[0], num_classes)
        self.always = always

    def forward(self, inputs: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        logits = self.linear(inputs)
        return (logits, inputs) if self.always or self.training else logits


def paired(shape: Sequence[int], num_classes: int) -> nn.Module:
    return Paired(shape, num_classes, always=True)


def paired_in_training(shape: Sequence[int], num_classes: int) -> nn.Module:
    return Paired(shape, num_classes, always=False)


class FailingInTraining(nn.Linear):
    """A mistake on the way that is taken in training only."""

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            inputs = inputs[:, {}["columns"]]
        return super().forward(inputs)


def failing_in_training(shape: Sequence[int], num_classes: int) -> nn.Module:
    return FailingInTraining(shape[0], num_classes)


class Counting(nn.Module):
    """Draws and counts in every pass, in any mode."""

    calls: Tensor
    noise: Tensor

    def __init__(self, shape: Sequence[int], num_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(shape[0], num_classes)
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("noise", torch.zeros(num_classes), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        self.noise = torch.rand_like(self.noise)
        return self.linear(inputs) + self.noise


def counting(shape: Sequence[int], num_classes: int) -> nn.Module:
    return Counting(shape, num_classes)
