"""Run folders with outputs made up by a test, written by training's own functions, without training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from tailmask._util.files import write_json
from tailmask.calibration import fit_thresholds
from tailmask.data.dataset import Dataset, Split
from tailmask.data.encoders.image import ImageEncoder
from tailmask.masking import RatioUpdate
from tailmask.metrics import evaluate
from tailmask.runs import configure
from tailmask.runs.array_file import write_arrays
from tailmask.runs.folder import begin_session
from tailmask.runs.history import append_record, epoch_record
from tailmask.runs.model_file import ModelDescription, save_model
from tailmask.runs.reader import Run
from tailmask.training.engine import run_description

__all__ = ["draw_logits", "draw_targets", "long_tail", "write_run"]


def long_tail(num_classes: int, *, largest: int = 1000, rho: float = 50.0) -> list[int]:
    """Training counts that fall from class to class."""
    return [int(largest * rho ** (-c / max(1, num_classes - 1))) for c in range(num_classes)]


def draw_targets(num_samples: int, num_classes: int, *, seed: int = 0, share: float = 0.2) -> Tensor:
    """Test labels (N, C) int8, each class present in the same share of the samples."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(num_samples, num_classes, generator=generator) < share).to(torch.int8)


def draw_logits(
    targets: Tensor, *, seed: int, quality: float | Tensor = 3.0, bias: float | Tensor = 0.0
) -> Tensor:
    """Logits that tell present from absent labels by `quality` deviations around `bias`; both may be (C,)."""
    generator = torch.Generator().manual_seed(10_000 + seed)  # apart from those that targets are drawn with
    noise = torch.randn(targets.shape, generator=generator)
    return noise + (targets.float() - 0.5) * quality + bias


def write_run(
    folder: Path,
    method: str,
    seed: int,
    *,
    logits: Tensor,
    targets: Tensor,
    members: Tensor | None = None,
    unit: str | None = None,
    validation: tuple[Tensor, Tensor] | None = None,
    prior_shift: Sequence[float] | None = None,
    train_positives: Sequence[int] | None = None,
    classes: Sequence[str] | None = None,
    single_label: bool = False,
    data: str = "digits",
    data_seed: int = 0,
    budget: float = 1.0,
    fields: Sequence[str] = (),
    num_epochs: int = 3,
    complete: bool = True,
) -> Run:
    """Write a run with these test outputs; with `validation` (logits, targets) thresholds are tuned on it."""
    num_classes = targets.shape[1]
    positives = list(train_positives or long_tail(num_classes))
    names = tuple(classes or (f"class {c}" for c in range(num_classes)))
    epochs = [f"schedule.epochs={num_epochs}", "schedule.milestones=[]", "schedule.factors=[]"]
    fields = [*epochs, *fields]
    config = configure(data, method, recipe="digits", seed=seed, budget=budget, fields=fields)
    dataset = Dataset(
        name=data,
        classes=names,
        train=_split(positives, total=2 * max(positives)),
        validation=None,
        test=Split(torch.zeros(len(targets), 1), targets),
        encoder=ImageEncoder(1, 1, 1, (0.0,), (1.0,)),
        single_label=single_label,
        source={"name": data, "data_seed": data_seed},
        unit=unit,
    )
    begin_session(folder, run_description(config, dataset, world_size=1), epochs_done=0, threads=1)
    for epoch in range(config.recipe.schedule.epochs):
        record = _record(epoch, masks=config.method.masking is not None, counts=dataset.train.counts())
        append_record(folder / "history.jsonl", record)
    if not complete:
        return Run(folder)
    arrays = {"test_logits": logits.float().numpy(), "test_targets": targets.numpy()}
    if members is not None:
        arrays["test_members"] = members.numpy()
    thresholds = None
    if validation is not None:
        arrays |= {"validation_logits": validation[0].numpy(), "validation_targets": validation[1].numpy()}
        thresholds = tuple(fit_thresholds(validation[0].sigmoid(), validation[1]).tolist())
    write_arrays(folder / "predictions.npz", arrays)
    description = ModelDescription(
        method=config.name,
        classes=names,
        shape=(1, 1, 1),
        model={"name": "linear"},
        encoder=dataset.encoder.to_json(),
        single_label=single_label,
        activation="sigmoid",
        logit_scale=1.0,
        threshold=0.5,
        thresholds=thresholds,
        prior_shift=None if prior_shift is None else tuple(prior_shift),
    )
    save_model(folder / "model.safetensors", nn.Linear(1, num_classes), description)
    evaluation = config.recipe.evaluation
    report = evaluate(
        logits,
        targets,
        train_positives=torch.tensor(positives),
        single_label=single_label,
        rarest=evaluation.rarest,
        frequent=evaluation.frequent,
    )
    write_json(folder / "metrics.json", {"test": report.to_json()})
    return Run(folder)


def _split(positives: Sequence[int], *, total: int) -> Split:
    rows = torch.arange(total).unsqueeze(1)
    targets = (rows < torch.tensor(positives)).to(torch.int8)
    return Split(torch.zeros(total, 1), targets)


def _record(epoch: int, *, masks: bool, counts: Tensor) -> dict[str, object]:
    negatives, positives = counts.float()
    ratio = positives / negatives * torch.linspace(0.9, 1.1, len(positives)) ** epoch
    divergence = torch.stack([positives.log() / (1 + epoch), (negatives + 1).log() / (1 + epoch)])
    keep = torch.stack([torch.full_like(ratio, 0.9), torch.ones_like(ratio)])
    return epoch_record(
        epoch=epoch,
        loss=1.0 / (1 + epoch),
        lr=0.1,
        seconds=1.5,
        num_samples=int(counts[:, 0].sum()),
        in_force=(ratio, keep) if masks else None,
        update=RatioUpdate(ratio, divergence[1] - divergence[0], divergence, keep) if masks else None,
        validation=None,
    )
