"""The Lightning module: a network, the objective of a method, and the steps of an epoch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from tailmask._util.messages import UserError, is_out_of_memory
from tailmask.models import is_own_model
from tailmask.models.last_layer import last_bias, last_parameters
from tailmask.models.trial_run import needs_two_rows, reason
from tailmask.runs.history import epoch_record
from tailmask.runs.recipe import OptimizerRecipe
from tailmask.training.batches import Batch, Batches, Shard, loader
from tailmask.training.nan_guard import Fault, Watch
from tailmask.training.run_parts import Parts
from tailmask.training.tables.table_loop import batch_loss

__all__ = ["TrainingModule"]


class TrainingModule(pl.LightningModule):
    """Trains a network with an objective on a data set.

    All random numbers come from generators seeded by (seed, epoch), and the learning rate is a function of
    the epoch and the step. So a resumed run needs only the weights, the optimiser and the ratios.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.parts = parts
        self.network = parts.network
        self.objective = parts.objective
        self.dataset = parts.dataset
        self.recipe = parts.recipe
        self.seed = parts.seed
        self.compiled: Callable[[Tensor], Tensor] | None = None
        self.record: dict[str, Any] = {}
        self._began = 0.0
        self._watch = Watch()
        self._in_force: tuple[Tensor, Tensor] | None = None

    @property
    def shard(self) -> Shard:
        """The rank of this process, and the number of ranks."""
        return Shard(self.global_rank, self.trainer.world_size)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The recipe's optimiser."""
        return build_optimizer(self.network, self.recipe.optimizer)

    def train_dataloader(self) -> Any:
        """The batches of the current epoch; the trainer calls this before each epoch."""
        epoch = self.current_epoch
        batches = Batches(
            self.dataset.train,
            self.objective.order(epoch),
            batch_size=self.recipe.schedule.batch_size,
            purpose=(self.seed, "augment", epoch),
            shard=self.shard,
        )
        if batches.num_last_rows == 1 and needs_two_rows(self.network, self.dataset.shape):
            batches.join_last()
        return loader(batches)

    def on_train_epoch_start(self) -> None:
        """Seed everything by the epoch."""
        epoch = self.current_epoch
        self._in_force = self.parts.begin_epoch(epoch, rank=self.global_rank)
        self._began, self._watch = time.perf_counter(), Watch()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Set the learning rate of the step."""
        step = 1 / self.trainer.num_training_batches
        factor = self.recipe.schedule.factor(self.current_epoch + batch_idx * step, step)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = group["base_lr"] * factor

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Loss of a batch."""
        inputs, targets, scale = batch
        # Batches of other sizes are not compiled: each size would be compiled again, and the kernels for a
        # batch must not depend on when the process was started.
        full = batch_idx + 1 < self.trainer.num_training_batches
        network = self.compiled if self.compiled is not None and full else self.network
        logits = self._logits(network, inputs)
        loss = batch_loss(self.objective, logits, targets)
        if self.shard.world_size > 1:
            loss = loss * self._share(targets, scale)
        self._refuse(self._watch.add(loss, logits=logits, inputs=inputs, num_rows=len(targets), scale=scale))
        return loss if logits.ndim == 2 else loss * len(logits)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Clip the gradient; Lightning's own clipping refuses fused optimisers."""
        if self.recipe.optimizer.clip:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.optimizer.clip)

    def _share(self, targets: Tensor, scale: float) -> Tensor | float:
        """The factor on this rank's loss that makes the mean over ranks the loss of the whole batch."""
        weight = self.objective.total_weight(targets)
        if weight is None:
            return scale
        total = weight.clone()
        torch.distributed.all_reduce(total)
        return weight * self.shard.world_size / total.clamp(min=torch.finfo(total.dtype).tiny)

    def _logits(self, network: Callable[[Tensor], Any], inputs: Tensor) -> Tensor:
        """Logits of a batch; an error in a user's own network becomes a `UserError`."""
        name = self.recipe.model.name
        try:
            logits = network(inputs)
        except Exception as error:
            if network is not self.network or not is_own_model(name) or is_out_of_memory(error):
                raise
            raise UserError(f"the network of {name} failed in training: {reason(error)}") from error
        if not isinstance(logits, Tensor):
            kind = type(logits).__name__
            raise UserError(f"the network of {name} must also return logits in training, got a {kind}")
        return logits

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the number of finished epochs."""
        checkpoint["epochs_done"] = self.record["epoch"]

    def on_train_epoch_end(self) -> None:
        """Evaluate on the validation split, move the ratios, and record the epoch."""
        self._refuse(self._watch.look())
        validation = self.parts.validate(shard=self.shard, device=self.device)
        lr = self.trainer.optimizers[0].param_groups[-1]["lr"]  # the last layer's
        update = self.parts.end_epoch(self.current_epoch, lr=lr)
        total = torch.tensor(self._watch.total, device=self.device)
        num_samples = len(self.objective.order(self.current_epoch))
        self.record = epoch_record(
            epoch=self.current_epoch,
            loss=float(self.trainer.strategy.reduce(total, reduce_op="sum")) / num_samples,
            lr=lr,
            seconds=time.perf_counter() - self._began,
            num_samples=num_samples,
            in_force=self._in_force,
            update=update,
            validation=validation,
        )

    def _refuse(self, fault: Fault | None) -> None:
        """Stop a run with NaN or infinite values before anything of this epoch is written."""
        if fault is not None:
            raise self.parts.fault_error(
                fault, epoch=self.current_epoch, num_steps=self.trainer.num_training_batches
            )


def build_optimizer(network: nn.Module, recipe: OptimizerRecipe) -> torch.optim.Optimizer:
    """The recipe's optimiser over the network's parameters that are trained."""
    last = None if recipe.decay_last_bias else last_bias(network)
    groups: list[dict[str, Any]] = []
    for parameters, base in _by_rate(network, recipe):
        others = [parameter for parameter in parameters if parameter is not last]
        groups += [{"params": others, "base_lr": base}] if others else []
        if last is not None and len(others) < len(parameters):
            groups.append({"params": [last], "weight_decay": 0.0, "base_lr": base})
    lr, decay = recipe.lr, recipe.weight_decay
    if recipe.name == "sgd":
        return torch.optim.SGD(groups, lr, momentum=recipe.momentum, weight_decay=decay, fused=True)
    kind = torch.optim.Adam if recipe.name == "adam" else torch.optim.AdamW
    return kind(groups, lr, betas=(recipe.momentum, 0.999), weight_decay=decay, fused=True)


def _by_rate(network: nn.Module, recipe: OptimizerRecipe) -> list[tuple[list[nn.Parameter], float]]:
    """The trained parameters with their learning rates: one for the body, one for the last linear layer."""
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if not trained:
        raise UserError(
            "all weights of the network are frozen, so none can be trained: unfreeze some, or lower "
            "model.freeze"
        )
    if not recipe.body_lr:
        return [(trained, recipe.lr)]
    head = {id(parameter) for parameter in last_parameters(network)}
    body = [parameter for parameter in trained if id(parameter) not in head]
    return [(body, recipe.body_lr), ([p for p in trained if id(p) in head], recipe.lr)]
