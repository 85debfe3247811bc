"""Lightning's trainer for runs: its devices, its logs, and its cluster environment."""

from __future__ import annotations

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment

from tailmask.runs.config import RunConfig
from tailmask.training.progress import Progress
from tailmask.training.with_lightning.devices import Placement
from tailmask.training.with_lightning.lightning_callbacks import (
    AtomicCheckpointIO,
    EpochRecorder,
    ProgressCallback,
)

__all__ = ["build_trainer"]


def build_trainer(
    config: RunConfig,
    placement: Placement,
    recorder: EpochRecorder,
    *,
    progress: Progress,
) -> pl.Trainer:
    """The trainer of a run; `recorder` writes its epochs."""
    return pl.Trainer(
        devices=placement.devices,
        num_nodes=placement.num_nodes,
        strategy="ddp" if placement.world_size > 1 else "auto",
        precision="bf16-mixed" if config.precision == "bf16" else "32-true",
        max_epochs=config.recipe.schedule.epochs,
        accumulate_grad_batches=config.recipe.schedule.accumulate,
        callbacks=[recorder, ProgressCallback(progress)],
        plugins=[AtomicCheckpointIO(), _cluster(placement)],
        logger=False,
        default_root_dir=recorder.folder,
        reload_dataloaders_every_n_epochs=1,  # a sampler may draw new samples for each epoch
        use_distributed_sampler=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )


class _Slurm(SLURMEnvironment):
    """Slurm's environment without Lightning's checks: `Placement` accepts more ways to ask for tasks."""

    def __init__(self) -> None:
        super().__init__(auto_requeue=False)  # the same command resumes by itself

    @staticmethod
    def _validate_srun_variables() -> None:
        """Skip Lightning's check: it refuses all tasks without --ntasks-per-node."""

    def validate_settings(self, num_devices: int, num_nodes: int) -> None:
        """Skip Lightning's check: it compares with the job's variables, and the step's may differ."""


def _cluster(placement: Placement) -> ClusterEnvironment:
    if placement.launcher == "slurm":
        return _Slurm()
    return TorchElasticEnvironment() if placement.launcher == "torchrun" else LightningEnvironment()
