"""A run on a table: the small loop, with history, checkpoints, interrupts and results in the run's folder."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

from tailmask._util.messages import UserError
from tailmask.data.dataset import Split
from tailmask.models.last_layer import last_bias
from tailmask.runs.history import append_record, epoch_record, to_line
from tailmask.runs.recipe import OptimizerRecipe
from tailmask.training.checkpoint_file import (
    LASTING,
    remove_checkpoints,
    write_checkpoint,
)
from tailmask.training.context_managers import terminations
from tailmask.training.progress import StepReports
from tailmask.training.run_results import write_results
from tailmask.training.session import Session
from tailmask.training.tables.optimizers import Optimizer
from tailmask.training.tables.table_loop import TableLoop, batches

__all__ = ["Checkpoints", "train_table"]

# Up to this size in bytes, the state is copied after each epoch: an interrupt then loses no finished epoch.
KEPT_BYTES = 2**28


def train_table(session: Session, checkpoint: dict[str, Any]) -> None:
    """Train a run and write the results; resume if the checkpoint's content is not empty."""
    parts, config, progress = session.parts, session.config, session.progress
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    parts.network.to(device).train()
    parts.objective.to(device).train()
    optimizer = fused_optimizer(parts.network, config.recipe.optimizer)
    loop = TableLoop(
        parts.network, parts.objective, optimizer, bf16=config.precision == "bf16", device=device
    )
    state = nn.ModuleDict({"network": parts.network, "objective": parts.objective})
    done: int = checkpoint.get("epochs_done", 0)
    if checkpoint:
        try:
            state.load_state_dict(checkpoint["state_dict"])
            optimizer.load_state(checkpoint["optimizer_states"][0])
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise UserError(
                f"the checkpoint in {session.folder} does not fit this run: remove the folder to train again"
            ) from error
    epochs = config.recipe.schedule.epochs
    progress.begin(done=done, total=epochs)
    checkpoints = Checkpoints(session, state, optimizer)
    with terminations():
        try:
            for epoch in range(done, epochs):
                record = _train_epoch(session, loop, epoch)
                checkpoints.add(record)
                session.report(record)
        except OSError:
            raise
        except BaseException:
            checkpoints.rescue()
            raise
        write_results(session.folder, parts, config, device=device)
    remove_checkpoints(session.folder)


def _train_epoch(session: Session, loop: TableLoop, epoch: int) -> dict[str, Any]:
    """Train one epoch, counted from 0, and return its record."""
    parts, schedule, lr = session.parts, session.config.recipe.schedule, session.config.recipe.optimizer.lr
    began = time.perf_counter()
    in_force = parts.begin_epoch(epoch)
    order = parts.objective.order(epoch)
    number = -(-len(order) // schedule.batch_size)
    step = 1 / number

    def lr_at(index: int) -> float:
        return lr * schedule.factor(epoch + index * step, step)

    reports = StepReports(session.progress)

    def report(index: int, loss: float, num_samples: int) -> None:
        reports.add(loss, epoch=epoch + 1, share=(index + 1) / number, num_samples=num_samples)

    rows = batches(_Rows(parts.dataset.train), order, schedule.batch_size)
    fault = loop.run(rows, lr=lr_at, on_step=report)
    if fault is not None:
        raise parts.fault_error(fault, epoch=epoch, num_steps=number)
    validation = parts.validate(device=loop.device)
    update = parts.end_epoch(epoch, lr=lr_at(number - 1))
    return epoch_record(
        epoch=epoch,
        loss=loop.total / len(order),
        lr=lr_at(number - 1),
        seconds=time.perf_counter() - began,
        num_samples=len(order),
        in_force=in_force,
        update=update,
        validation=validation,
    )


class _Rows:
    """A split in the form that the loop needs."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def __len__(self) -> int:
        return len(self.split)

    @property
    def row_bytes(self) -> int:
        return 4 * torch.Size(self.split.shape).numel()

    def batch(self, index: Tensor) -> tuple[Tensor, ...]:
        return self.split.batch(index)


class Checkpoints:
    """History and checkpoints of a run: one line per epoch, and a checkpoint every few seconds.

    A killed process loses these seconds. On an interrupt or an error, `rescue` writes the state after the
    last finished epoch; a copy of that state is kept if it is small.
    """

    SECONDS_BETWEEN = 5.0

    def __init__(self, session: Session, state: nn.Module, optimizer: Optimizer) -> None:
        self.folder = session.folder
        self.lines = list(session.lines)
        self.state = state
        self.optimizer = optimizer
        self._written = time.monotonic()
        self._waiting: dict[str, Any] | None = None  # a checkpoint that is not on the disk yet
        tensors = [*state.state_dict().values(), *optimizer.means, *optimizer.squares]
        self._is_small = sum(tensor.nbytes for tensor in tensors) <= KEPT_BYTES

    def add(self, record: dict[str, Any]) -> None:
        """Add the record of a finished epoch."""
        is_due = time.monotonic() - self._written >= self.SECONDS_BETWEEN
        append_record(self.folder / "history.jsonl", record, durable=is_due)
        self.lines.append(to_line(record))
        self._waiting = self._content() if is_due or self._is_small else None
        if is_due:
            self.rescue()
            self._written = time.monotonic()

    def rescue(self) -> None:
        """Write the state after the last finished epoch, unless it is already on the disk."""
        if self._waiting is not None:
            write_checkpoint(self.folder / LASTING, self._waiting, durable=True)
            self._waiting = None

    def _content(self) -> dict[str, Any]:
        return {
            "epochs_done": len(self.lines),
            "history": list(self.lines),
            "state_dict": {name: tensor.clone() for name, tensor in self.state.state_dict().items()},
            "optimizer_states": [self.optimizer.state()],
        }


def fused_optimizer(network: nn.Module, recipe: OptimizerRecipe) -> Optimizer:
    """The recipe's optimiser over the network's parameters."""
    last = None if recipe.decay_last_bias else last_bias(network)
    groups = [([each for each in network.parameters() if each is not last], recipe.weight_decay)]
    if last is not None:
        groups.append(([last], 0.0))
    return Optimizer(groups, name=recipe.name, momentum=recipe.momentum)
