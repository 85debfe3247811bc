"""Run folders with made-up outputs, as training would leave them, for tests of what is made of them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import torch

from tailmask.metrics import evaluate
from tailmask.runs.config import determined_by


def write_run(planned, *, classes, train_positives, strength=2.0, single_label=False, validation_f1=None):
    """A complete run on 300 test samples; the higher `strength`, the better its outputs."""
    config, number = planned.config, len(classes)
    method, seed = config.name, config.seed
    generator = torch.Generator().manual_seed(7)  # the same labels for all runs
    targets = (torch.rand(300, number, generator=generator) < 0.3).to(torch.int8)
    if single_label:
        labels = torch.randint(number, (300,), generator=generator)
        targets = torch.nn.functional.one_hot(labels, number).to(torch.int8)
    generator.manual_seed(seed + 100 * len(method))
    logits = strength * (targets - 0.5) + torch.randn(300, number, generator=generator)
    recipe = config.recipe.evaluation
    report = evaluate(
        logits,
        targets,
        train_positives=torch.tensor(train_positives),
        single_label=single_label,
        rarest=recipe.rarest,
        frequent=recipe.frequent,
    ).to_json()
    samples = max(train_positives) * 3
    record = config.to_json() | {
        "digest": f"{seed}",
        "commit": None,
        "data": config.data,
        "classes": list(classes),
        "single_label": single_label,
        "train_counts": [[samples - count for count in train_positives], list(train_positives)],
        "sessions": [{"threads": 1}],
        "shape": [],
        "determines": {"data": {"name": Path(config.data).name}, **determined_by(config)},
    }
    planned.folder.mkdir(parents=True)
    (planned.folder / "run.json").write_text(json.dumps(record))
    np.savez(planned.folder / "predictions.npz", test_logits=logits.numpy(), test_targets=targets.numpy())
    (planned.folder / "history.jsonl").write_text("".join(_epochs(record, config.recipe.schedule.epochs)))
    validation = report if validation_f1 is None else {"summary": {"f1": validation_f1}}
    (planned.folder / "metrics.json").write_text(json.dumps({"test": report, "validation": validation}))
    return planned.folder


def _epochs(record, number):
    negatives, positives = record["train_counts"]
    for epoch in range(number):
        ratios = [p / n * 2**epoch for p, n in zip(positives, negatives, strict=True)]
        keep = [[1 / (epoch + 1)] * len(positives), [1.0] * len(positives)]
        line = {"epoch": epoch + 1, "loss": 1.0, "seconds": 2.0, "ratio": ratios, "keep": keep}
        line |= {"divergence": keep, "gap": keep[1]}
        yield json.dumps(line) + "\n"


def with_epochs(request, epochs):
    """A request whose runs have few epochs."""
    fields = (f"schedule.epochs={epochs}", "schedule.milestones=[]", "schedule.factors=[]")
    return dataclasses.replace(request, fields=(*request.fields, *fields))
