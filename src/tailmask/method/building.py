"""What a method's name makes of a training split: the parts of its objective, built from the options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from tailmask import losses
from tailmask.data.dataset import Split
from tailmask.errors import UserError
from tailmask.masking import PartialLabelMasking
from tailmask.method import parts
from tailmask.method.grammar import Method
from tailmask.method.objective import Objective
from tailmask.method.seeds import derive
from tailmask.sampling import ClassAwareSampler, UndersamplingSampler

__all__ = ["build_objective"]


def build_objective(
    method: Method,
    train: Split,
    *,
    single_label: bool = False,
    num_epochs: int = 1,
    seed: int = 0,
    has_validation: bool = False,
    classes: Sequence[str] | None = None,
) -> Objective:
    """The objective of a method on a training split.

    `num_epochs` is the length of training: deferred re-weighting and the update by rates begin after a share
    of it. The reduction is the paper's, summed over classes, mean over the batch. `classes` are names for
    warnings.

    >>> import torch
    >>> from tailmask.method import parse
    >>> train = Split(torch.eye(4), torch.tensor([[1, 0], [0, 1], [1, 0], [1, 0]], dtype=torch.int8))
    >>> objective = build_objective(parse("plm:rate=0.05"), train)
    >>> objective(torch.zeros(4, 2, requires_grad=True), train.targets.float())
    tensor(1.3863, grad_fn=<DivBackward0>)
    """
    method.require_fit(single_label=single_label)
    counts = train.counts()  # (2, C)
    sampler = _sampler(method, train, counts, seed=derive(seed, "draw"))
    if method.masking is None:
        loss = _loss(method, counts, single_label=single_label, num_epochs=num_epochs)
        return Objective(loss, num_samples=len(train), seed=seed, sampler=sampler)
    inner: nn.Module | None = None  # PLM's own binary cross-entropy is the fastest
    if method.loss != parts.BCE() or method.balance is not None:
        inner = _loss(method, counts, single_label=single_label, num_epochs=num_epochs, reduction="none")
    statistics, notes = _statistics(method.masking, has_validation=has_validation)
    if sampler is not None:
        counts = sampler.class_counts()  # Eq. 3 holds for the ratio of what is drawn
    record = statistics == "training"
    criterion = _masking(method.masking, counts, inner, num_epochs=num_epochs, record=record, classes=classes)
    notes += _idle(criterion, num_epochs=num_epochs, is_drawn=sampler is not None)
    return Objective(
        criterion, num_samples=len(train), seed=seed, sampler=sampler, statistics=statistics, notes=notes
    )


def _loss(
    method: Method, counts: Tensor, *, single_label: bool, num_epochs: int, reduction: str = "batchmean"
) -> nn.Module:
    negatives, positives = counts
    options = _chosen(method.loss) | {"reduction": reduction}
    weight = None
    if method.balance is not None:
        beta = {} if method.balance.beta is None else {"beta": method.balance.beta}
        weight = losses.class_balanced_weights(positives, **beta)
        if not isinstance(method.loss, parts.LDAM):  # whose weights are always one a sample
            per = method.balance.per or ("sample" if single_label else "class")
            options["per_sample"] = per == "sample"
    if method.deferral is None and weight is not None:
        options["weight"] = weight
    loss: losses.ElementwiseLoss | losses.LDAMLoss
    match method.loss:
        case parts.BCE():
            if power := options.pop("pos_power", 0.0):
                options["pos_weight"] = losses.positive_weights(positives, negatives, power=power)
            loss = losses.BinaryCrossEntropy(**options)
        case parts.Focal():
            loss = losses.FocalLoss(**options)
        case parts.ASL():
            loss = losses.AsymmetricLoss(**options)
        case parts.Hill():
            loss = losses.HillLoss(**options)
        case parts.DB():
            loss = losses.DistributionBalancedLoss(positives, negatives, **options)
        case parts.LDAM():
            loss = losses.LDAMLoss(positives, **options | {"reduction": "mean"})  # as published
    if method.deferral is None:
        return loss
    start = 0.8 if method.deferral.start is None else method.deferral.start  # epoch 160 of 200 as published
    start_epoch = min(round(start * num_epochs), num_epochs - 1)  # so that it does begin
    return losses.DeferredReweighting(loss, weight, start_epoch=start_epoch)


def _masking(
    masking: parts.Masking,
    counts: Tensor,
    loss: nn.Module | None,
    *,
    num_epochs: int,
    record: bool,
    classes: Sequence[str] | None,
) -> PartialLabelMasking:
    names = {"init": "initial_ratio", "bins": "num_bins", "range": "ratio_range"}
    chosen = {names.get(name, name): value for name, value in _chosen(masking).items()}
    chosen.pop("statistics", None)
    chosen |= {"epochs": num_epochs, "record": record, "classes": classes}
    return PartialLabelMasking(counts, loss=loss, reduction="batchmean", **chosen)


def _statistics(
    masking: parts.Masking, *, has_validation: bool
) -> tuple[Literal["training", "validation"], tuple[str, ...]]:
    if masking.statistics == "validation" and not has_validation:
        raise UserError(
            "plm:statistics=validation needs a validation split: give the data one, as in --validation 0.1"
        )
    if masking.statistics is not None or masking.adapt != "rate":
        return masking.statistics or "training", ()
    if has_validation:
        return "validation", ()
    return "training", (
        "plm:adapt=rate is meant for outputs on a validation split; there is none, so it uses those of the "
        "training passes, which say little once the training data are memorised",
    )


def _idle(criterion: PartialLabelMasking, *, num_epochs: int, is_drawn: bool) -> tuple[str, ...]:
    """What to say where training ends before the first update that moves ratios can be felt."""
    if not criterion.is_idle_for(num_epochs):
        return ()
    outcome = "it holds those of the first draw" if is_drawn else "it masks nothing"
    return (
        f"plm's first {criterion.warmup} updates leave the ratios as they are, and the number of epochs is "
        f"{num_epochs}, so {outcome}: train for more, or set plm:warmup=0",
    )


def _sampler(
    method: Method, train: Split, counts: Tensor, *, seed: int
) -> UndersamplingSampler | ClassAwareSampler | None:
    # One replica: the training loop splits each batch over the ranks itself.
    match method.sampling:
        case parts.Undersample(samples=samples):
            if samples is None:  # half of the classes are cut down to the others' size
                samples = max(1, int(counts[1].double().median()))
            return UndersamplingSampler(train.targets, samples, seed=seed, num_replicas=1, rank=0)
        case parts.ClassAware():
            return ClassAwareSampler(train.targets, seed=seed, num_replicas=1, rank=0)
        case _:
            return None


def _chosen(part: parts.Part) -> dict[str, Any]:
    return {name: value for name, value in vars(part).items() if value is not None}
