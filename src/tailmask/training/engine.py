"""Training: from a configuration to a complete run folder, whatever happens on the way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tailmask.data import load
from tailmask.data.dataset import Dataset
from tailmask.data.notes import data_notes
from tailmask.data.statistics import summaries
from tailmask.errors import UserError, listing
from tailmask.method import build_objective
from tailmask.method.seeds import derive
from tailmask.models import build_model
from tailmask.models.trial import needs_two_rows
from tailmask.training.checkpoint import EpochRecorder, find_checkpoint, remove_checkpoints
from tailmask.training.config import RunConfig, determined_by, digest
from tailmask.training.folder import begin_session, check_folder
from tailmask.training.guards import disk_errors, interrupts, memory_errors, process_group, quiet
from tailmask.training.history import first_lines, restore_history
from tailmask.training.lock import locked
from tailmask.training.module import TrainingModule
from tailmask.training.placement import Placement
from tailmask.training.progress import Progress
from tailmask.training.recipe import EvaluationRecipe
from tailmask.training.results import write_results
from tailmask.training.run import Run
from tailmask.training.trainer import build_trainer

__all__ = ["Execution", "build_module", "describe", "determining", "train"]


@dataclass(frozen=True)
class Execution:
    """How a run is computed.

    The number of devices is part of what determines the result; the number of threads changes its last bits.

    Args:
        devices: Processes that train together on this machine, one on each device.
        threads: CPU threads of a process; None leaves torch's choice.
        tensorboard: Whether to log for TensorBoard into the run folder as well.
    """

    devices: int = 1
    threads: int | None = None
    tensorboard: bool = False


def train(
    config: RunConfig,
    folder: Path | str,
    *,
    dataset: Dataset | None = None,
    execution: Execution | None = None,
    progress: Progress | None = None,
) -> Run:
    """Make the run in `folder`: train it, go on with it where it was interrupted, or just read it.

    `dataset` saves loading the data that `config` names where it is at hand. What cannot work raises a
    `UserError` before anything is written; an interrupt raises `KeyboardInterrupt` and leaves a run that the
    same call goes on with.
    """
    folder, execution = Path(folder), execution or Execution()
    placement = Placement.from_environment()
    if execution.devices > 1 and placement.world_size == 1:
        from tailmask.training.launch import launch

        launch(config, folder, dataset=dataset, execution=execution, progress=progress)
        return Run(folder)
    if execution.threads is not None:
        torch.set_num_threads(execution.threads)
    dataset = dataset or load(config.data, config.options)
    config = config.fitted(dataset.shape)
    with quiet():
        module = build_module(config, dataset, world_size=placement.world_size)
    record = describe(config, dataset, world_size=placement.world_size)
    record["notes"] += [note for note in module.objective.notes if note not in record["notes"]]
    if check_folder(folder, record["determines"]).is_complete:
        remove_checkpoints(folder)
        return Run(folder)
    batch_size = config.recipe.schedule.batch_size
    with quiet(), disk_errors(folder), memory_errors(batch_size), process_group():
        if not placement.is_first:
            _train(config, folder, module, placement, execution, progress=None, record=record)
        else:
            with locked(folder):
                if not Run(folder).is_complete:  # another process may have ended just now
                    _train(config, folder, module, placement, execution, progress=progress, record=record)
    return Run(folder)


def build_module(config: RunConfig, dataset: Dataset, *, world_size: int = 1) -> TrainingModule:
    """The network and the objective of a run, at their start; refuses what cannot work."""
    config = config.fitted(dataset.shape)
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
    torch.manual_seed(derive(config.seed, "weights"))
    network = build_model(
        shape=dataset.shape, num_classes=len(dataset.classes), bias=recipe.model.bias, **model
    )
    _check_batches(network, dataset, batch_size=recipe.schedule.batch_size, world_size=world_size)
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return TrainingModule(
        network, objective, dataset=dataset, recipe=recipe, seed=config.seed, model_arguments=model
    )


def determining(config: RunConfig, dataset: Dataset, *, world_size: int) -> dict[str, Any]:
    """All that the result of a run depends on."""
    own = determined_by(config.fitted(dataset.shape))
    return {"data": dataset.source, **own, "world_size": world_size}


def describe(config: RunConfig, dataset: Dataset, *, world_size: int) -> dict[str, Any]:
    """What run.json says of a run."""
    determines = determining(config, dataset, world_size=world_size)
    statistics = summaries(dataset)
    return config.fitted(dataset.shape).to_json() | {
        "format": 1,
        "digest": digest(determines),
        "determines": determines,
        "data": config.data,
        "shape": list(dataset.shape),
        "classes": list(dataset.classes),
        "single_label": dataset.single_label,
        "train_counts": [list(statistics["train"].negatives), list(statistics["train"].positives)],
        "notes": list(data_notes(dataset, statistics)),
    }


def _check_groups(recipe: EvaluationRecipe, *, num_classes: int) -> None:
    for name, sizes in (("rarest", recipe.rarest), ("frequent", recipe.frequent)):
        if not all(1 <= size <= num_classes for size in sizes):
            raise UserError(
                f"evaluation.{name} must be numbers of classes, of which there are {num_classes}, "
                f"got {listing(sizes)}: set it, as in --set evaluation.{name}=[1]"
            )


def _check_batches(network: nn.Module, dataset: Dataset, *, batch_size: int, world_size: int) -> None:
    """A remainder of one row joins another batch; where all have just one, there is none to join."""
    number = min(batch_size, len(dataset.train))
    if number <= world_size and needs_two_rows(network, dataset.shape):
        whom = "a single row" if world_size == 1 else f"each of {world_size} processes a single row"
        raise UserError(
            f"batches of {number} leave {whom}, which the network's batch normalisation cannot take: "
            f"set schedule.batch_size to {2 * world_size} or more"
        )


def _train(
    config: RunConfig,
    folder: Path,
    module: TrainingModule,
    placement: Placement,
    execution: Execution,
    *,
    progress: Progress | None,
    record: dict[str, Any],
) -> None:
    path, content = find_checkpoint(folder) or (None, {})
    done: int = content.get("epochs_done", 0)
    lines = content.get("history") or first_lines(folder / "history.jsonl", done)
    del content  # which Lightning reads for itself
    if len(lines) < done:
        raise UserError(f"{folder}/history.jsonl lacks epochs that are done: remove the folder to train anew")
    if placement.is_first:
        restore_history(folder / "history.jsonl", lines)
        begin_session(folder, record, epochs_done=done, threads=torch.get_num_threads())
    if progress is not None:
        for note in record["notes"]:
            progress.note(note)
        if path is not None:
            progress.note(f"resuming after epoch {done} of {config.recipe.schedule.epochs}")
    recorder = EpochRecorder(folder, None if progress is None else progress.record, lines=lines)
    trainer = build_trainer(config, placement, recorder, progress=progress, tensorboard=execution.tensorboard)
    if config.compile:
        # The function, not the module: that would be a second owner of the weights.
        module.compiled = torch.compile(module.network.forward, dynamic=False)
    try:
        with interrupts():
            trainer.fit(module, ckpt_path=None if path is None else str(path))
            # Which has moved it to the CPU, where it is slow, and where NCCL cannot gather the outputs.
            module.to(trainer.strategy.root_device)
            write_results(folder, module, config, is_first=placement.is_first)
    except torch._dynamo.exc.TorchDynamoException as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"the network cannot be compiled here ({reason}): leave out --compile") from error
    finally:
        if progress is not None:
            progress.end()
    if placement.is_first:
        remove_checkpoints(folder)
    trainer.strategy.barrier()  # no rank reads the run before it is complete
