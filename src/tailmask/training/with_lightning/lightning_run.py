"""Training with Lightning: images, users' own networks, compiled networks, several devices."""

from __future__ import annotations

from pathlib import Path

import torch

from tailmask._util.messages import UserError
from tailmask.training.checkpoint_file import remove_checkpoints
from tailmask.training.context_managers import interrupts
from tailmask.training.run_results import write_results
from tailmask.training.session import Session
from tailmask.training.with_lightning.devices import Placement
from tailmask.training.with_lightning.lightning_callbacks import EpochRecorder
from tailmask.training.with_lightning.lightning_module import TrainingModule
from tailmask.training.with_lightning.lightning_trainer import build_trainer

__all__ = ["train_with_lightning"]


def train_with_lightning(session: Session, placement: Placement, checkpoint: Path | None) -> None:
    """Train a run, from a checkpoint if there is one, and write its results."""
    folder, config, progress = session.folder, session.config, session.progress
    module = TrainingModule(session.parts)
    recorder = EpochRecorder(folder, session.report, lines=session.lines)
    trainer = build_trainer(config, placement, recorder, progress=progress)
    if config.compiled:
        # Compile the function, not the module: a compiled module would be a second owner of the weights.
        module.compiled = torch.compile(module.network.forward, dynamic=False)
    try:
        with interrupts():
            trainer.fit(module, ckpt_path=None if checkpoint is None else str(checkpoint))
            # fit() has moved the module to the CPU: that is slow, and NCCL cannot gather outputs there.
            module.to(trainer.strategy.root_device)
            write_results(folder, session.parts, config, shard=module.shard, device=module.device)
    except torch._dynamo.exc.TorchDynamoException as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"the network cannot be compiled here ({reason}): leave out --compile") from error
    if placement.is_first:
        remove_checkpoints(folder)
    trainer.strategy.barrier()  # no rank reads the run before it is complete
