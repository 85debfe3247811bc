"""The training loop for tables: batches cut from gathered rows, and a loop without overhead per batch.

`tailmask train` on tables and the scikit-learn estimators train with it. It needs torch and NumPy only.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from tailmask.training.nan_guard import Fault
from tailmask.training.tables.optimizers import Optimizer

__all__ = ["RowSource", "TableLoop", "batch_loss", "batches"]

# Bytes of inputs gathered at once: enough for many small batches, but never a second copy of large data.
BLOCK_BYTES = 2**24


class RowSource(Protocol):
    """Rows to train on, by index."""

    def __len__(self) -> int: ...

    @property
    def row_bytes(self) -> int:
        """Bytes of one dense row of inputs."""
        ...

    def batch(self, index: Tensor) -> tuple[Tensor, ...]:
        """Inputs (B, F), targets (B, C), and further arguments of the criterion, for the rows in `index`."""
        ...


def batches(source: RowSource, order: Tensor, batch_size: int) -> Iterator[tuple[Tensor, ...]]:
    """The batches of the rows in `order`, gathered in blocks.

    Gathering costs more per call than per row, so a block holds all batches that fit into `BLOCK_BYTES`.
    """
    per_block = max(1, BLOCK_BYTES // max(1, source.row_bytes * batch_size)) * batch_size
    for first in range(0, len(order), per_block):
        block = source.batch(order[first : first + per_block])
        for start in range(0, len(block[0]), batch_size):
            yield tuple(part[start : start + batch_size] for part in block)


def batch_loss(criterion: Callable[..., Tensor], logits: Tensor, *labels: Tensor) -> Tensor:
    """The criterion's loss, for the logits (B, C) of a network or (M, B, C) of a network with M members.

    Each member is a network of its own: it has its own masks, and the loss is the mean over members.

    >>> logits, targets = torch.zeros(2, 3, 4), torch.zeros(3, 4)
    >>> batch_loss(nn.BCEWithLogitsLoss(), logits, targets)
    tensor(0.6931)
    """
    if logits.ndim == 2:
        return criterion(logits, *labels)
    number = len(logits)
    return criterion(logits.flatten(0, 1), *(part.repeat(number, *[1] * (part.ndim - 1)) for part in labels))


class TableLoop:
    """Trains a network on rows, one epoch at a time.

    >>> network = nn.Linear(2, 1)
    >>> loop = TableLoop(network, nn.BCEWithLogitsLoss(), Optimizer([(list(network.parameters()), 0.0)]))
    >>> loop.run([(torch.eye(2), torch.eye(2)[:, :1])], lr=lambda step: 0.1) is None
    True
    >>> loop.num_rows, 0.2 < loop.total / loop.num_rows < 1.2
    (2, True)

    Args:
        network: Returns logits (B, C), or (M, B, C) in training if it has M members.
        criterion: (logits, targets, …) → mean loss of the batch.
        optimizer: Moves the network's parameters.
        bf16: Whether to compute in mixed precision.
        device: Where to compute; network and criterion must be there.
    """

    def __init__(
        self,
        network: nn.Module,
        criterion: Callable[..., Tensor],
        optimizer: Optimizer,
        *,
        bf16: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        self.network = network
        self.criterion = criterion
        self.optimizer = optimizer
        self.device = torch.device(device)
        self.bf16 = bf16
        self.total = 0.0  # loss of all rows in the last epoch
        self.num_rows = 0

    def run(
        self,
        epoch: Iterable[tuple[Tensor, ...]],
        *,
        lr: Callable[[int], float],
        on_step: Callable[[int, float, int], None] | None = None,
    ) -> Fault | None:
        """Train on the batches of one epoch. At NaN or infinite values, stop and return their place.

        `lr` returns the learning rate of a step, counted from 0. `on_step` gets the step, its loss and its
        number of rows.
        """
        self.total, self.num_rows = 0.0, 0
        parameters, criterion, is_cpu = self.optimizer.parameters, self.criterion, self.device.type == "cpu"
        for step, batch in enumerate(epoch):
            inputs, *labels = batch if is_cpu else [part.to(self.device) for part in batch]
            with torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else contextlib.nullcontext():
                logits = self.network(inputs)
                loss = batch_loss(criterion, logits, *labels)
            # Each member gets the gradient that it would get as the only network.
            gradients = torch.autograd.grad(loss if logits.ndim == 2 else loss * len(logits), parameters)
            value = loss.item()
            # PLM leaves out outputs that are not finite, so the loss does not show them.
            if not (math.isfinite(value) and math.isfinite(logits.detach().sum().item())):
                fault = _fault(step, value, logits, inputs)
                if fault is not None:
                    return fault
            self.optimizer.step(gradients, lr(step))
            self.total += value * len(inputs)
            self.num_rows += len(inputs)
            if on_step is not None:
                on_step(step, value, len(inputs))
        return None


def _fault(step: int, loss: float, logits: Tensor, inputs: Tensor) -> Fault | None:
    """The fault of a step; None if only a sum of large outputs overflowed."""
    if not bool(logits.detach().isfinite().all()):
        return Fault(step + 1, "outputs" if bool(inputs.isfinite().all()) else "inputs")
    return None if math.isfinite(loss) else Fault(step + 1, "loss")
