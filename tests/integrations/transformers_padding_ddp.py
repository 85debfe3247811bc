"""Run as two ranks by test_repeated_samples.py: two processes, and samples that fill no batch of both."""

import json
import os
import sys
from pathlib import Path

import torch
from small_trainers import make_criterion, make_data, make_trainer

NUM_SAMPLES = 21  # batches of 4 and 4, 4 and 4, 4 and 1


def main(root: Path, statistics: str) -> None:
    criterion = make_criterion(adapt="prevalence", warmup=0)
    counts = []
    step = criterion.step

    def count_and_step():
        counts.append(int(criterion.summed_statistics()[0].sum()))
        return step()

    criterion.step = count_and_step
    trainer = make_trainer(
        root,
        criterion,
        make_data(NUM_SAMPLES),
        statistics=statistics,
        learning_rate=0.0,
        eval_strategy="epoch",
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=2,  # the Trainer fetches both batches before it trains the first
    )
    trainer.train()
    if os.environ["RANK"] == "0":
        result = {"num_samples": NUM_SAMPLES, "counts": counts, "ratios": criterion.target_ratio.tolist()}
        (root / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
    # A process that ends with its group's threads running is sometimes aborted.
    torch.distributed.destroy_process_group()
