"""The parts of a run at its start: the network, the objective and the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tailmask._util.messages import UserError, listing
from tailmask._util.seeds import derive
from tailmask.data.dataset import Dataset
from tailmask.masking import RatioUpdate
from tailmask.methods import Objective, build_objective
from tailmask.models import BACKBONE, build_model
from tailmask.models.pretrained import PretrainedNetwork
from tailmask.models.trial_run import needs_two_rows
from tailmask.runs.config import RunConfig
from tailmask.runs.recipe import EvaluationRecipe, Recipe
from tailmask.training.batches import Shard
from tailmask.training.nan_guard import Fault
from tailmask.training.split_outputs import all_targets, predict, validation_metrics

__all__ = ["Parts", "build_parts"]


@dataclass(frozen=True)
class Parts:
    """The parts of a run that both training engines work on.

    `model_arguments` are the arguments of `build_model` that rebuild the network for prediction.
    """

    network: nn.Module
    objective: Objective
    dataset: Dataset
    recipe: Recipe
    seed: int
    model_arguments: dict[str, Any]

    def begin_epoch(self, epoch: int, *, rank: int = 0) -> tuple[Tensor, Tensor] | None:
        """Seed an epoch, counted from 0, and return its ratios (C,) and keep probabilities (2, C)."""
        seed = derive(self.seed, "network", epoch, rank)
        if next(self.network.parameters()).is_cpu:
            torch.default_generator.manual_seed(seed)  # torch.manual_seed takes a thousand times as long
        else:
            torch.manual_seed(seed)
        self.objective.begin_epoch(epoch, rank=rank)
        masking = self.objective.masking
        return None if masking is None else (masking.target_ratio.clone(), masking.keep.clone())

    def end_epoch(self, epoch: int, *, lr: float) -> RatioUpdate | None:
        """Move PLM's ratios after an epoch, counted from 0, whose last step had the learning rate `lr`."""
        try:
            return self.objective.end_epoch(lr_factor=lr / self.recipe.optimizer.lr)
        except ValueError as error:
            raise UserError(f"the ratios cannot be moved after epoch {epoch + 1}: {error}") from error

    def validate(
        self, *, shard: Shard | None = None, device: torch.device | str = "cpu"
    ) -> dict[str, float] | None:
        """Metrics on the validation split; PLM also gets its outputs if the method uses them."""
        split, objective = self.dataset.validation, self.objective
        if split is None:
            return None
        rank, world_size = shard or Shard()
        logits = predict(self.network, split, shard=shard, device=device)
        targets = all_targets(split)
        if objective.masking is not None and objective.statistics == "validation":
            # Each rank has all outputs, but records only its own rows: step() sums over ranks.
            mine = slice(rank, None, world_size)
            objective.masking.update(logits[mine].to(device), targets[mine].to(device))
        return validation_metrics(
            logits * objective.logit_scale,
            targets,
            threshold=self.recipe.evaluation.threshold,
            single_label=self.dataset.single_label,
            activation=objective.activation,
        )

    def fault_error(self, fault: Fault, *, epoch: int, num_steps: float) -> UserError:
        """The error that stops a run with NaN or infinite values; epochs count from 0."""
        where = f"in epoch {epoch + 1}, step {fault.step} of {num_steps}"
        if fault.what == "inputs":
            return UserError(f"the inputs hold NaN or infinite values {where}: remove them from the data")
        what = "loss" if fault.what == "loss" else "network's outputs"
        return UserError(
            f"the {what} became NaN or infinite {where}, often because of a high learning rate: "
            f"try --set optimizer.lr={self.recipe.optimizer.lr / 10:g} with another --out "
            "(the checkpoint of the last finished epoch is kept)"
        )


def build_parts(config: RunConfig, dataset: Dataset, *, world_size: int = 1) -> Parts:
    """The parts of a run; raises a `UserError` for a configuration that cannot work."""
    recipe = config.recipe
    _check_groups(recipe.evaluation, num_classes=len(dataset.classes))
    objective = build_objective(
        config.method,
        dataset.train,
        single_label=dataset.single_label,
        num_epochs=recipe.schedule.epochs,
        seed=config.seed,
        has_validation=dataset.validation is not None,
        classes=dataset.classes,
    )
    model: dict[str, Any] = {
        "name": recipe.model.name,
        "hidden": recipe.model.hidden,
        "dropout": recipe.model.dropout,
        "normalized": objective.needs_cosines,
    }
    if recipe.model.input_dropout:
        model["input_dropout"] = recipe.model.input_dropout
    if recipe.model.members > 1:
        model["members"] = recipe.model.members
    start: dict[str, Any] = {}
    if recipe.model.name == BACKBONE:
        model["pooling"] = config.options.pooling
        start |= {"backbone": config.options.backbone, "freeze": recipe.model.freeze}
    if recipe.model.fixed_norm:
        start["fixed_norm"] = True
    bias: str | Tensor = recipe.model.bias
    if bias == "prior":
        negatives, positives = dataset.train.counts().clamp(min=0.5)
        bias = (positives / negatives).log()  # (C,)
    torch.manual_seed(derive(config.seed, "weights"))
    network = build_model(shape=dataset.shape, num_classes=len(dataset.classes), bias=bias, **model, **start)
    if isinstance(network, PretrainedNetwork):  # to rebuild it without the folder of its weights
        model |= {"config": network.config_json(), "pooling": network.pooling}
    _check_batches(network, dataset, batch_size=recipe.schedule.batch_size, world_size=world_size)
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack memory_format alone
    return Parts(network, objective, dataset, recipe, config.seed, model)


def _check_groups(recipe: EvaluationRecipe, *, num_classes: int) -> None:
    for name, sizes in (("rarest", recipe.rarest), ("frequent", recipe.frequent)):
        if not all(1 <= size <= num_classes for size in sizes):
            raise UserError(
                f"evaluation.{name} must be numbers of classes from 1 to {num_classes}, "
                f"got {listing(sizes)}: set it, as in --set evaluation.{name}=[1]"
            )


def _check_batches(network: nn.Module, dataset: Dataset, *, batch_size: int, world_size: int) -> None:
    """Refuse batches of one row per process if batch normalisation needs two.

    A last batch of one row joins the batch before it, but that does not help if all batches have one row.
    """
    number = min(batch_size, len(dataset.train))
    if number <= world_size and needs_two_rows(network, dataset.shape):
        whom = "a single row" if world_size == 1 else f"each of {world_size} processes a single row"
        raise UserError(
            f"batches of {number} leave {whom}, but the network's batch normalisation needs two: "
            f"set schedule.batch_size to {2 * world_size} or more"
        )
