"""Run as two ranks by test_transformers.py: two processes train, and go back to the best model's ratios."""

import json
import os
import sys
from pathlib import Path

import torch
from small_trainers import make_criterion, make_trainer


def main(root: Path) -> None:
    criterion = make_criterion()
    options = {"eval_strategy": "epoch", "save_strategy": "epoch", "load_best_model_at_end": True}
    trainer = make_trainer(root, criterion, **options, learning_rate=30.0)  # too high to end best
    trainer.train()
    result = {"steps": int(criterion.num_steps), "ratios": criterion.target_ratio.tolist()}
    result["best"] = trainer.state.best_model_checkpoint
    (root / f"rank{os.environ['RANK']}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    # A process that ends with its group's threads running is sometimes aborted.
    torch.distributed.destroy_process_group()
