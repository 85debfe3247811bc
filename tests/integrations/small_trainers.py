"""Trainings of Hugging Face's Trainer that take a moment: a linear network on three labels."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from tailmask import PartialLabelMasking
from tailmask.integrations.transformers import PLMTrainerCallback, plm_loss

NUM_CLASSES = 3


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, NUM_CLASSES)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.linspace(-1.0, 1.0, parameter.numel()).view_as(parameter))

    def forward(self, inputs, labels=None):
        return {"logits": self.linear(inputs)}


def make_data(num_samples: int = 48) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(num_samples, 5, generator=generator)
    rare = torch.rand(num_samples, NUM_CLASSES, generator=generator) < torch.tensor([0.6, 0.3, 0.15])
    return inputs, (rare | (inputs[:, :NUM_CLASSES] > 1.2)).float()


def make_criterion(**options) -> PartialLabelMasking:
    return PartialLabelMasking.from_targets(make_data()[1], **{"rate": 0.5, "num_bins": 4} | options)


def make_trainer(root: Path, criterion: PartialLabelMasking, data=None, **options) -> Trainer:
    inputs, labels = data or make_data()
    options = {
        "per_device_train_batch_size": 8,
        "learning_rate": 0.5,
        "optim": "sgd",
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "save_strategy": "no",
        "num_train_epochs": 3,
    } | options
    dataset = options.pop("train_dataset", None)
    statistics = options.pop("statistics", "training")
    arguments = TrainingArguments(
        root, report_to="none", disable_tqdm=True, use_cpu=True, logging_strategy="no", seed=3, **options
    )
    rows = [{"inputs": x, "labels": y} for x, y in zip(inputs, labels, strict=True)]
    return Trainer(
        Network(),
        arguments,
        train_dataset=dataset or rows,
        eval_dataset=rows,
        compute_loss_func=plm_loss(criterion),
        callbacks=[PLMTrainerCallback(criterion, statistics=statistics)],
    )
