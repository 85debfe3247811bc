"""Training: from a configuration to a complete run folder, whatever happens on the way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment

from tailmask.data import load
from tailmask.data.dataset import Dataset
from tailmask.errors import UserError, listing, require
from tailmask.method import build_objective
from tailmask.method.seeds import derive
from tailmask.models import build_model
from tailmask.training.checkpoint import AtomicCheckpointIO, EpochRecorder, read_checkpoint
from tailmask.training.config import RunConfig, digest
from tailmask.training.folder import begin_session, check_folder
from tailmask.training.guards import disk_errors, interrupts, process_group, quiet
from tailmask.training.history import cut_history
from tailmask.training.lock import locked
from tailmask.training.module import TrainingModule
from tailmask.training.placement import Placement
from tailmask.training.progress import Progress, ProgressCallback
from tailmask.training.recipe import EvaluationRecipe
from tailmask.training.results import write_results
from tailmask.training.run import Run

__all__ = ["Execution", "build_module", "describe", "train"]


@dataclass(frozen=True)
class Execution:
    """How a run is computed; but for the number of devices it does not change what comes out.

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
        module = build_module(config, dataset)
    record = describe(config, dataset, world_size=placement.world_size)
    record["notes"] += module.objective.notes
    if check_folder(folder, record["determines"]).is_complete:
        (folder / "checkpoint.ckpt").unlink(missing_ok=True)
        return Run(folder)
    with quiet(), disk_errors(folder), process_group():
        if not placement.is_first:
            _train(config, folder, module, placement, execution, progress=None, record=record)
        else:
            with locked(folder):
                if not Run(folder).is_complete:  # another process may have ended just now
                    _train(config, folder, module, placement, execution, progress=progress, record=record)
    return Run(folder)


def build_module(config: RunConfig, dataset: Dataset) -> TrainingModule:
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
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return TrainingModule(
        network, objective, dataset=dataset, recipe=recipe, seed=config.seed, model_arguments=model
    )


def describe(config: RunConfig, dataset: Dataset, *, world_size: int) -> dict[str, Any]:
    """What run.json says of a run; `determines` is all that its result depends on."""
    values = config.fitted(dataset.shape).to_json()
    recipe = {name: table for name, table in values["recipe"].items() if name != "method"}
    determines = {
        "data": dataset.source,
        "method": values["method"],
        "recipe": recipe,
        "seed": values["seed"],
        "precision": values["precision"],
        "compile": values["compile"],
        "world_size": world_size,
    }
    return values | {
        "format": 1,
        "digest": digest(determines),
        "determines": determines,
        "data": config.data,
        "shape": list(dataset.shape),
        "classes": list(dataset.classes),
        "single_label": dataset.single_label,
        "train_counts": dataset.train.counts().tolist(),
        "notes": list(dataset.notes),
    }


def _check_groups(recipe: EvaluationRecipe, *, num_classes: int) -> None:
    for name, sizes in (("rarest", recipe.rarest), ("frequent", recipe.frequent)):
        if not all(1 <= size <= num_classes for size in sizes):
            raise UserError(
                f"evaluation.{name} must be numbers of classes, of which there are {num_classes}, "
                f"got {listing(sizes)}: set it, as in --set evaluation.{name}=[1]"
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
    checkpoint = folder / "checkpoint.ckpt"
    resumes = checkpoint.exists()
    done = read_checkpoint(checkpoint)["epochs_done"] if resumes else 0
    if placement.is_first:
        if not cut_history(folder / "history.jsonl", done):
            raise UserError(
                f"{folder}/history.jsonl lacks epochs that are done: remove the folder to train anew"
            )
        begin_session(folder, record, epochs_done=done, threads=torch.get_num_threads())
    if progress is not None:
        for note in module.objective.notes:
            progress.note(note)
        if resumes:
            progress.note(f"resuming after epoch {done} of {config.recipe.schedule.epochs}")
    trainer = _trainer(config, folder, placement, execution, progress)
    if config.compile:
        # The function, not the module: that would be a second owner of the weights.
        module.compiled = torch.compile(module.network.forward, dynamic=False)
    try:
        with interrupts():
            trainer.fit(module, ckpt_path=str(checkpoint) if resumes else None)
            write_results(folder, module, config, is_first=placement.is_first)
    except torch._dynamo.exc.TorchDynamoException as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"the network cannot be compiled here ({reason}): leave out --compile") from error
    finally:
        if progress is not None:
            progress.end()
    if placement.is_first:
        checkpoint.unlink(missing_ok=True)
    trainer.strategy.barrier()  # no rank reads the run before it is complete


def _trainer(
    config: RunConfig, folder: Path, placement: Placement, execution: Execution, progress: Progress | None
) -> pl.Trainer:
    callbacks: list[pl.Callback] = [EpochRecorder(folder, None if progress is None else progress.record)]
    if progress is not None:
        callbacks.append(ProgressCallback(progress))
    return pl.Trainer(
        devices=placement.devices,
        num_nodes=placement.num_nodes,
        strategy="ddp" if placement.world_size > 1 else "auto",
        precision="bf16-mixed" if config.precision == "bf16" else "32-true",
        max_epochs=config.recipe.schedule.epochs,
        callbacks=callbacks,
        plugins=[AtomicCheckpointIO(), _cluster(placement)],
        logger=_logger(folder) if execution.tensorboard else False,
        default_root_dir=folder,
        reload_dataloaders_every_n_epochs=1,  # an epoch's samples may be drawn anew
        use_distributed_sampler=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )


def _cluster(placement: Placement) -> ClusterEnvironment:
    if placement.launcher == "slurm":
        return SLURMEnvironment(auto_requeue=False)  # the same command resumes by itself
    return TorchElasticEnvironment() if placement.launcher == "torchrun" else LightningEnvironment()


def _logger(folder: Path) -> Any:
    require("tensorboardX", extra="tensorboard")
    from pytorch_lightning.loggers import TensorBoardLogger

    return TensorBoardLogger(folder, name="", version="tensorboard")
