"""Run as two ranks by test_lightning.py: two processes train, and go on from the middle of an epoch."""

import json
import os
import sys
from pathlib import Path

import pytorch_lightning
import torch
from small_fits import BATCH_SIZE, NUM_BATCHES, ResumableLoader, make_data, make_module

from tailmask.integrations.lightning import PLMCallback


class Halves(torch.utils.data.Sampler):
    """Each rank's half of every batch of the single process, so that both see the same batches."""

    def __init__(self, rank: int):
        self.rank = rank

    def __iter__(self):
        rows = torch.arange(NUM_BATCHES * BATCH_SIZE).view(NUM_BATCHES, 2, BATCH_SIZE // 2)
        return iter(rows[:, self.rank].flatten().tolist())

    def __len__(self):
        return NUM_BATCHES * BATCH_SIZE // 2


def fit(root: Path, *, expected: bool, callbacks=(), ckpt_path: Path | None = None):
    module = make_module(pytorch_lightning, expected=expected)
    module.criterion.generator.manual_seed(int(os.environ["LOCAL_RANK"]))
    trainer = pytorch_lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        use_distributed_sampler=False,
        max_epochs=3,
        default_root_dir=root,
        callbacks=[PLMCallback(), *callbacks],
        logger=False,
        enable_checkpointing=bool(callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
    )

    class Data(pytorch_lightning.LightningDataModule):
        def train_dataloader(self):
            return ResumableLoader(make_data(), BATCH_SIZE // 2, sampler=Halves(self.trainer.global_rank))

    trainer.fit(module, Data(), ckpt_path=ckpt_path)
    return trainer, module


def main(root: Path) -> None:
    results = {}
    for expected in (True, False):
        checkpoints = pytorch_lightning.callbacks.ModelCheckpoint(
            root / str(expected), filename="{step}", every_n_train_steps=NUM_BATCHES + 2, save_top_k=-1
        )
        _, whole = fit(root, expected=expected, callbacks=[checkpoints])
        path = root / str(expected) / f"step={NUM_BATCHES + 2}.ckpt"
        saved = torch.load(path, weights_only=True)["callbacks"]["PLMCallback"]["criterion"][
            "histograms.counts"
        ]
        trainer, resumed = fit(root, expected=expected, ckpt_path=path)
        results["expected" if expected else "drawn"] = {
            "whole": whole.criterion.target_ratio.tolist(),
            "resumed": resumed.criterion.target_ratio.tolist(),
            "saved_labels": int(saved.sum()),
        }
    if trainer.is_global_zero:
        (root / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    # A process that ends with its group's threads running is sometimes aborted.
    torch.distributed.destroy_process_group()
