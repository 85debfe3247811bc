"""Builds the objective of a method for a training split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch import nn

from tailmask._util.messages import UserError
from tailmask._util.seeds import derive
from tailmask.data.dataset import Split
from tailmask.masking import PartialLabelMasking
from tailmask.methods.grammar import Method
from tailmask.methods.objective import Objective

__all__ = ["build_objective", "uses_validation"]


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

    `num_epochs` is the length of training: deferred re-weighting and the update by prevalence begin after a
    share of it. The reduction is the paper's, summed over classes, mean over the batch. `classes` are names
    for warnings.

    >>> import torch
    >>> from tailmask.methods import parse
    >>> train = Split(torch.eye(4), torch.tensor([[1, 0], [0, 1], [1, 0], [1, 0]], dtype=torch.int8))
    >>> objective = build_objective(parse("plm:rate=0.05"), train)
    >>> objective(torch.zeros(4, 2, requires_grad=True), train.targets.float())
    tensor(1.3863, grad_fn=<DivBackward0>)
    """
    method.require_fit(single_label=single_label)
    counts = train.counts()  # (2, C)
    given = {
        "negatives": counts[0],
        "positives": counts[1],
        "single_label": single_label,
        "num_epochs": num_epochs,
    }
    sampler = None
    if method.sampling is not None:
        # One replica: the training loop splits each batch over the ranks itself.
        sampler = method.sampling.build(
            targets=train.targets, seed=derive(seed, "draw"), num_replicas=1, rank=0
        )
    if method.masking is None:
        loss = _loss(method, given, reduction="batchmean")
        return Objective(loss, num_samples=len(train), seed=seed, sampler=sampler)
    inner: nn.Module | None = None  # PLM's own binary cross-entropy is the fastest
    if str(method.loss) != "bce" or method.weighting is not None:
        inner = _loss(method, given, reduction="none")
    statistics, notes = _statistics(method, has_validation=has_validation)
    if sampler is not None:
        counts = sampler.class_counts()  # Eq. 3 holds for the ratio of what is drawn
    criterion: PartialLabelMasking = method.masking.with_options(statistics=statistics).build(
        class_counts=counts, loss=inner, epochs=num_epochs, classes=classes
    )
    notes += _idle(criterion, num_epochs=num_epochs, is_drawn=sampler is not None)
    return Objective(
        criterion, num_samples=len(train), seed=seed, sampler=sampler, statistics=statistics, notes=notes
    )


def uses_validation(method: Method) -> bool:
    """True if outputs on validation data move the ratios of a method.

    >>> from tailmask.methods import parse
    >>> uses_validation(parse("plm:adapt=prevalence")), uses_validation(parse("plm"))
    (True, False)
    """
    masking = method.masking
    if masking is None:
        return False
    statistics = masking.get("statistics")
    return statistics == "validation" or (statistics is None and masking.get("adapt") == "prevalence")


def _loss(method: Method, given: Mapping[str, Any], *, reduction: str) -> nn.Module:
    """The loss with its class weights; deferred weights begin at a later epoch."""
    shared: dict[str, Any] = {} if method.loss.word.single_label else {"reduction": reduction}
    if method.weighting is not None:
        shared["weight"], shared["per_sample"] = method.weighting.build(**given)
    weight = shared.pop("weight", None) if method.deferral is not None else None
    loss: nn.Module = method.loss.build(**given, **shared)
    if method.deferral is not None:
        loss = method.deferral.build(loss=loss, weight=weight, **given)
    return loss


def _statistics(
    method: Method, *, has_validation: bool
) -> tuple[Literal["training", "validation"], tuple[str, ...]]:
    """Which outputs move the ratios, and a note if they are not those that the method is meant for."""
    if not uses_validation(method):
        return "training", ()
    if has_validation:
        return "validation", ()
    if method.masking is not None and method.masking.get("statistics") == "validation":
        raise UserError(
            "plm:statistics=validation needs a validation split: give the data one, as in --validation 0.1"
        )
    return "training", (
        "plm:adapt=prevalence is meant for a validation split; there is none, so it uses the outputs of the "
        "training passes, which say little once the training data are memorised",
    )


def _idle(criterion: PartialLabelMasking, *, num_epochs: int, is_drawn: bool) -> tuple[str, ...]:
    """A note if training ends before an update of the ratios can have an effect."""
    if not criterion.is_idle_for(num_epochs):
        return ()
    outcome = "they stay those of the first draw" if is_drawn else "it masks nothing"
    reason, remedy = f"the number of epochs is {num_epochs}", "train for more, or set plm:warmup=0"
    if criterion.schedule.is_idle:
        reason, remedy = f"hold={criterion.schedule.hold} skips the others", "set a larger plm:hold"
    return (
        f"plm's first {criterion.warmup} updates leave the ratios as they are, and {reason}, so {outcome}: "
        f"{remedy}",
    )
