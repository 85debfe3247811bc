"""The loss: what stays of a batch's labels (Eq. 3), and what it costs (Eq. 2)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tailmask import functional
from tailmask.masking.counting import count_classes, stack_counts
from tailmask.masking.labels import Batch, one_hot, raise_faults, read_batch
from tailmask.masking.options import Gap
from tailmask.masking.ratios import AdaptiveRatio
from tailmask.reduction import Reduction, check_reduction

__all__ = ["PartialLabelMasking"]

Loss = Callable[[Tensor, Tensor], Tensor]


class PartialLabelMasking(AdaptiveRatio):
    """Partial Label Masking (Duarte et al. 2021): a loss that masks single labels of single samples.

    Each class is trained at its own ratio of positives to negatives, by leaving labels out of the loss at
    random (Eq. 2 and 3). `forward` also bins the outputs that it sees; `step`, called once an epoch like a
    scheduler, moves each class's ratio by how far its outputs are from the truth (Eq. 4 to 7). The loss need
    not be moved to a device: it follows the logits.

    >>> targets = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> criterion = PartialLabelMasking.from_targets(targets)
    >>> logits = torch.tensor([[2.0, -2.0], [1.0, 1.0], [3.0, -2.0], [2.0, -1.0]], requires_grad=True)
    >>> criterion(logits, targets)  # nothing is masked before the first step
    tensor(0.8120, grad_fn=<BinaryCrossEntropyWithLogitsBackward0>)
    >>> criterion.step().target_ratio  # the first class is over-predicted, the second under-predicted
    tensor([2.9406, 0.3401])

    Args:
        class_counts: Negatives and positives of each class in the training data, shape (2, C). Mostly made by
            `from_targets` or `from_counts`.
        loss: Elementwise loss, (logits, targets) → (N, C) without a reduction; None is binary cross-entropy.
        rate: λ of Eq. 7; None is 0.01, and for `adapt="rate"` 18 / `epochs`, at most 0.5 (below 14 epochs
            7 / `epochs`, at most 1; 0.1 where their number is not known).
        adapt: What moves the ratios: "divergence" is the paper's; "rate" matches predicted to true shares of
            positives and comes to rest, best on held-out data (`record=False` and `update`); or a function of
            the counts (2, C, num_bins) that gives each class's gap (C,). "divergence" compares classes: of
            two only the signs count (D_c is ±2, ±1 or 0), and one alone never moves.
        num_bins: τ, the number of bins of the output probabilities.
        initial_ratio: "class" (the data's own ratios), their "mean", "min" or "max", or numbers (C,).
        ratio_range: Lowest and highest target ratio, from the first batch on: a class whose own ratio lies
            outside is masked before any `step`. The paper uses (0, 1) on MSCOCO.
        warmup: How many of the first steps leave the ratios; None is 0, and for `adapt="rate"` half of
            `epochs` (5 without them).
        epochs: How many epochs training has, for `adapt="rate"`; with None it is not known.
        classes: Names of the classes, for warnings; None numbers them.
        record: Whether `forward` records statistics; False leaves that to `update`.
        expected: Weigh labels by their keep probability instead of drawing: the same loss in the mean,
            without the draw's variance.
        reduction: "mean" over the known labels as in torch.nn; "batchmean", the paper's: summed over classes,
            mean over samples; "sum"; or "none", (N, C).
        generator: Source of the masks; None is torch's own. Naming one breaks the graph of torch.compile.
        validate: Check values in every `forward` rather than in `step`; waits for the device.
    """

    def __init__(
        self,
        class_counts: Tensor,
        *,
        loss: Loss | None = None,
        rate: float | None = None,
        adapt: Literal["divergence", "rate"] | Gap = "divergence",
        num_bins: int = 10,
        initial_ratio: Literal["class", "mean", "min", "max"] | Tensor | Sequence[float] = "class",
        ratio_range: tuple[float, float] | None = None,
        warmup: int | None = None,
        epochs: int | None = None,
        classes: Sequence[str] | None = None,
        record: bool = True,
        expected: bool = False,
        reduction: Reduction = "mean",
        generator: torch.Generator | None = None,
        validate: bool = False,
    ) -> None:
        super().__init__(
            class_counts,
            rate=rate,
            adapt=adapt,
            num_bins=num_bins,
            initial_ratio=initial_ratio,
            ratio_range=ratio_range,
            warmup=warmup,
            epochs=epochs,
            classes=classes,
        )
        check_reduction(reduction)
        if loss is not None and (isinstance(loss, type) or not callable(loss)):
            raise ValueError(
                "loss must be a callable, (logits, targets) → (N, C), "
                f'such as tailmask.losses.FocalLoss(reduction="none"), got {loss!r}'
            )
        if getattr(loss, "reduction", "none") != "none":
            raise ValueError('the loss must give one value a label: pass reduction="none" to it')
        self.loss = loss
        self.record = record
        self.expected = expected
        self.reduction = reduction
        self.generator = generator
        self.validate = validate

    @classmethod
    def from_targets(cls, targets: Any, *, num_classes: int | None = None, **options: Any) -> Self:
        """Build the loss from the training targets.

        `targets` is a tensor, an array or a scipy sparse matrix (N, C), class indices (N,), or a DataLoader
        (see `count_classes`). The options are the constructor's.

        >>> PartialLabelMasking.from_targets(torch.tensor([0, 0, 1]), rate=0.05).class_ratio
        tensor([2.0000, 0.5000])
        """
        return cls(count_classes(targets, num_classes=num_classes), **options)

    @classmethod
    def from_counts(cls, positives: Any, negatives: Any, **options: Any) -> Self:
        """Build the loss from the numbers of positive and negative samples of each class.

        >>> PartialLabelMasking.from_counts([10, 1], [40, 49]).class_ratio
        tensor([0.2500, 0.0204])
        """
        return cls(stack_counts(positives, negatives), **options)

    def forward(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Masked loss of a batch (Eq. 2); in training it also records the outputs for the next `step`.

        Logits and targets have the shape (N, C), or (N, C, …) with the class on axis 1; integer targets
        without the class axis are class indices. `sample_weight` has the shape (N,). In evaluation mode, or
        without gradients, nothing is masked or recorded.
        """
        active = self.training and torch.is_grad_enabled()
        batch = self._read(logits, targets, guard=active)
        if active:
            self.trained_keep.copy_(self.keep)
        if active and self.record:
            self._record(batch)
            self._by_forward = True
        elif active and batch.faults is not None:
            self.faults += batch.faults
        weight = self._label_weight(batch, masked=active)  # (N, C)
        if sample_weight is not None:
            column = self._sample_column(sample_weight, logits.shape)
            weight = column.expand_as(batch.logits) if weight is None else weight * column
        if self.reduction == "none":
            by_class = self._losses(batch, weight, reduction="none")
            return by_class.view(len(logits), *logits.shape[2:], self.num_classes).movedim(-1, 1)
        if self.reduction == "mean":
            mean = self._losses(batch, weight, reduction="mean")
            if batch.known is None:
                return mean
            # Over the known labels, never the kept ones: Eq. 2 does not renormalise.
            return mean * (batch.known.numel() / batch.known.sum().clamp(min=1).to(mean.dtype))
        total = self._losses(batch, weight, reduction="sum")
        return total if self.reduction == "sum" else total / len(logits)

    @torch.no_grad()
    def update(self, logits: Tensor, targets: Tensor) -> None:
        """Record a batch's outputs for the next `step` without a loss, in a pass of your own.

        For statistics of held-out data, or of a clean pass over the training data: build the loss with
        `record=False`, so that `forward` leaves them alone.
        """
        self._record(self._read(logits, targets))
        self._by_update = True

    @property
    def supports_prior_shift(self) -> bool:
        """Whether `prior_shift` is valid for the loss: cross-entropy that weighs both labels alike."""
        loss = self.loss
        return (
            loss is None
            or (isinstance(loss, nn.BCEWithLogitsLoss) and loss.pos_weight is None)
            or bool(getattr(loss, "supports_prior_shift", False))
        )

    def prior_shift(self) -> Tensor:
        """log(r / r̄), shape (C,): added to logits, it undoes the ratios that training was held at.

        The ratios are those that the last training `forward` was masked by, as part of the state: a `step`
        or new class counts tell with the next one. Before the first they are those to start from. A class
        that was trained unmasked, for lack of a label, has the shift 0.

        Turns outputs back into probabilities under the data's own prior. Valid for binary cross-entropy, also
        with constant class weights; approximate while the ratios still move; for other losses a warning says
        that the result is no probability.
        """
        if not self.supports_prior_shift:
            warnings.warn(
                f"prior_shift holds for binary cross-entropy, not for {self.loss!r}: "
                "the shifted outputs are no probabilities",
                stacklevel=2,
            )
        # By Eq. 3 one of the two is r / r̄ or r̄ / r, and the other is 1.
        negatives, positives = self.trained_keep.log().unbind()
        return negatives - positives

    def extra_repr(self) -> str:
        """The options that tell one instance from another."""
        adapt = self.adapt if isinstance(self.adapt, str) else getattr(self.adapt, "__name__", "custom")
        return (
            f"num_classes={self.num_classes}, rate={self.rate:g}, adapt={adapt}, num_bins={self.num_bins}, "
            f"expected={self.expected}, reduction={self.reduction}"
        )

    def _read(self, logits: Tensor, targets: Tensor, *, guard: bool = True) -> Batch:
        if logits.ndim < 2 or logits.shape[1] != self.num_classes:
            raise ValueError(
                f"logits must have shape (N, {self.num_classes}), got {tuple(logits.shape)}: "
                "did the class counts come from another data set?"
            )
        self._follow(logits.device)
        if targets.ndim == logits.ndim - 1 and self.num_classes > 1:
            targets = one_hot(targets, self.num_classes)
        if targets.shape != logits.shape:
            raise ValueError(
                f"targets must have the logits' shape {tuple(logits.shape)}, got {tuple(targets.shape)}"
            )
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        if targets.dtype != logits.dtype:
            targets = targets.to(logits.dtype)
        if logits.ndim > 2:
            logits, targets = (each.movedim(1, -1).flatten(0, -2) for each in (logits, targets))
        batch = read_batch(logits, targets, guard=guard)
        if self.validate and batch.faults is not None:
            raise_faults(batch.faults)
        return batch

    def _label_weight(self, batch: Batch, *, masked: bool) -> Tensor | None:
        if not masked:
            return None if batch.known is None else batch.known.to(batch.logits.dtype)
        negatives, positives = self.keep.to(batch.targets.dtype).unbind()
        if batch.known is None:  # the targets are 0 or 1, and lerp gives just its end points
            keep = torch.lerp(negatives, positives, batch.targets)
        else:
            keep = torch.where(batch.targets >= 0.5, positives, negatives) * batch.known
        return keep if self.expected else functional.draw(keep, self.generator)

    def _sample_column(self, sample_weight: Tensor, shape: torch.Size) -> Tensor:
        if sample_weight.shape != shape[:1]:
            raise ValueError(f"sample_weight must have shape ({shape[0]},), got {tuple(sample_weight.shape)}")
        return sample_weight.to(self.keep.dtype).repeat_interleave(shape[2:].numel()).unsqueeze(1)

    def _losses(self, batch: Batch, weight: Tensor | None, *, reduction: str) -> Tensor:
        if self.loss is None:
            return F.binary_cross_entropy_with_logits(
                batch.logits, batch.targets, weight=weight, reduction=reduction
            )
        losses = self.loss(batch.logits, batch.targets)
        if losses.shape != batch.logits.shape:
            raise ValueError(
                f"the loss must give one value a label, shape {tuple(batch.logits.shape)}, "
                f'got {tuple(losses.shape)}: pass reduction="none" to it'
            )
        if weight is not None:
            losses = losses * weight
        return losses if reduction == "none" else getattr(losses, reduction)()
