"""The criterion: which labels of a batch stay (Eq. 3), what they cost (Eq. 2), and when the ratios move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import torch
from torch import Tensor

from tailmask import functional
from tailmask._util.exact_buffers import ExactBuffers
from tailmask._util.reduction import Reduction
from tailmask.masking import notices, ratios
from tailmask.masking.counting import check_counts, count_classes, stack_counts
from tailmask.masking.criterion_options import Gap, InitialRatio, Options, StatisticsSource, check_loss
from tailmask.masking.histograms import OutputHistograms, check_state
from tailmask.masking.label_mask import can_fuse, fused_loss, label_weight
from tailmask.masking.labels import LabelBatch, raise_faults, read
from tailmask.masking.ratios import RatioUpdate
from tailmask.masking.reducing import Loss, reduced_loss, sample_column, takes_prior_shift
from tailmask.masking.schedule import Schedule

__all__ = ["PartialLabelMasking"]

_WITHOUT_VALUES = ("meta",)


class PartialLabelMasking(ExactBuffers):
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
        rate: λ of Eq. 7; None is 0.01, and for `adapt="prevalence"` 18 / `epochs`, at most 0.5 (below 14
            epochs 7 / `epochs`, at most 1; 0.1 where their number is not known).
        adapt: What moves the ratios: "divergence" is the paper's; "prevalence" matches predicted to true
            shares of positives and comes to rest, on the outputs for validation data; or a function of the
            counts (2, C, num_bins) that gives each class's gap (C,). "divergence" compares classes: of two
            only the signs count (D_c is ±2, ±1 or 0), and one alone never moves.
        num_bins: τ, the number of bins of the output probabilities.
        initial_ratio: "class" (the data's own ratios), their "mean", "min" or "max", or numbers (C,).
        ratio_range: Lowest and highest target ratio, from the first batch on: a class whose own ratio lies
            outside is masked before any `step`. The paper uses (0, 1) on MSCOCO.
        warmup: How many of the first steps leave the ratios; None is 0, and for `adapt="prevalence"` half of
            `epochs` (5 without them).
        hold: After how many steps the ratios stay as they are; below 1 a share of `epochs`. None is never.
        damp: Multiply λ with the learning rate's factor, which `step` then needs.
        epochs: How many epochs training has, for `adapt="prevalence"` and a share as `hold`; None if that is
            not known.
        classes: Names of the classes, for warnings; None numbers them.
        statistics: Whose outputs move the ratios: "training" counts those that `forward` sees in training,
            "validation" only those given to `update`. None is "validation" for `adapt="prevalence"`, else
            "training".
        expected: Weigh labels by their keep probability instead of drawing: the same loss in the mean,
            without the draw's variance.
        reduction: "mean" over the known labels as in torch.nn; "batchmean", the paper's: summed over classes,
            mean over samples; "sum"; or "none", (N, C).
        generator: Source of the masks; None is torch's own. Naming one breaks the graph of torch.compile.
        validate: Check values in every `forward` rather than in `step`; waits for the device.
    """

    class_counts: Tensor  # (2, C) negatives and positives in the data
    target_ratio: Tensor  # (C,) r̄
    num_steps: Tensor  # ()
    keep: Tensor  # (2, C) keep probabilities of the current epoch, derived from the ratios
    trained_keep: Tensor  # (2, C) those that the last training pass was masked by

    def __init__(
        self,
        class_counts: Tensor,
        *,
        loss: Loss | None = None,
        rate: float | None = None,
        adapt: Literal["divergence", "prevalence"] | Gap = "divergence",
        num_bins: int = 10,
        initial_ratio: InitialRatio | Tensor | Sequence[float] = "class",
        ratio_range: tuple[float, float] | None = None,
        warmup: int | None = None,
        hold: float | None = None,
        damp: bool = False,
        epochs: int | None = None,
        classes: Sequence[str] | None = None,
        statistics: StatisticsSource | None = None,
        expected: bool = False,
        reduction: Reduction = "mean",
        generator: torch.Generator | None = None,
        validate: bool = False,
    ) -> None:
        super().__init__()
        class_counts = check_counts(class_counts)
        check_loss(loss)
        self.options = Options.read(
            class_counts.shape[1],
            adapt=adapt,
            num_bins=num_bins,
            initial_ratio=initial_ratio,
            ratio_range=ratio_range,
            classes=classes,
            statistics=statistics,
            expected=expected,
            reduction=reduction,
            validate=validate,
        )
        self.schedule = Schedule.of(adapt, rate=rate, warmup=warmup, hold=hold, damp=damp, epochs=epochs)
        self.loss = loss
        self.statistics = self.options.statistics
        self.generator = generator
        self._make_buffers(class_counts)
        self._notices = notices.StepNotices()
        notices.incomplete_classes(self.options, class_counts)
        notices.too_few_classes(self.options, class_counts, rate=self.schedule.rate)

    def _make_buffers(self, class_counts: Tensor) -> None:
        """All state that a step or a batch changes, on the device of the class counts."""
        device = class_counts.device
        start = ratios.initial_ratio(self.options, class_counts)
        keep = ratios.keep(class_counts, start)
        self.register_buffer("class_counts", class_counts.clone())
        self.register_buffer("target_ratio", start.clone())
        self.register_buffer("num_steps", torch.zeros((), dtype=torch.int64, device=device))
        self.register_buffer("keep", keep, persistent=False)
        self.register_buffer("trained_keep", keep.clone())
        self.histograms = OutputHistograms(self.num_classes, self.num_bins, device=device)

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

    @property
    def num_classes(self) -> int:
        """C, the number of classes."""
        return self.options.num_classes

    @property
    def num_bins(self) -> int:
        """τ, the number of bins."""
        return self.options.num_bins

    @property
    def adapt(self) -> str | Gap:
        """What moves the ratios, as it was given."""
        return self.options.adapt

    @property
    def reduction(self) -> Reduction:
        """How the values of a batch become a loss."""
        return self.options.reduction

    @property
    def rate(self) -> float:
        """λ after the warm-up."""
        return self.schedule.rate

    @property
    def warmup(self) -> int:
        """How many of the first steps leave the ratios."""
        return self.schedule.warmup

    @property
    def class_ratio(self) -> Tensor:
        """Ratio of positives to negatives in the data, r_c, shape (C,)."""
        return ratios.class_ratio(self.class_counts)

    @property
    def counts(self) -> Tensor:
        """Histograms of the outputs since the last step, by label and class, (2, C, num_bins)."""
        return self.histograms.counts

    @property
    def faults(self) -> Tensor:
        """How many logits were not finite and how many targets not allowed since the last step, (2,)."""
        return self.histograms.faults

    def forward(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Masked loss of a batch (Eq. 2); in training it also records the outputs for the next `step`.

        Logits and targets have the shape (N, C), or (N, C, …) with the class on axis 1; integer targets
        without the class axis are class indices. `sample_weight` has the shape (N,). In evaluation mode, or
        without gradients, nothing is masked or recorded.
        """
        active = self.training and torch.is_grad_enabled()
        batch = self._read(logits, targets, guard=active)
        column = None if sample_weight is None else sample_column(sample_weight, logits.shape)
        weight = None
        if active:
            self.trained_keep.copy_(self.keep)
            counts = self.counts if self.statistics == "training" else None
            if counts is not None:
                self._notices.by_forward = True
            drawn_by = self.keep, batch, self.options, self.generator
            if column is None and can_fuse(self.loss, *drawn_by):
                return fused_loss(*drawn_by, num_samples=len(logits), counts=counts)
            if counts is not None:
                self.histograms.add(batch)
            else:
                self.histograms.add_faults(batch)
            weight = label_weight(*drawn_by)  # (N, C)
        if column is not None:
            weight = column.expand_as(batch.logits) if weight is None else weight * column
        return reduced_loss(self.loss, batch, weight, reduction=self.reduction, shape=logits.shape)

    @torch.no_grad()
    def update(self, logits: Tensor, targets: Tensor) -> None:
        """Record a batch's outputs for the next `step` without a loss, in a pass of your own.

        For statistics of validation data, or of a clean pass over the training data: with
        `statistics="validation"` nothing else is counted.

        In a process group `step` adds up what the ranks have recorded. So give each rank its own part of the
        data, or call `update` on one rank only: where every rank records the whole validation set, each
        sample counts as often as there are ranks, and rare classes look better known than they are.
        """
        self.histograms.add(self._read(logits, targets))
        self._notices.by_update = True

    def step(self, *, lr_factor: float | None = None) -> RatioUpdate:
        """Move the target ratios by what was recorded since the last step (Eq. 5 to 7); call once an epoch.

        `lr_factor` is the epoch's learning rate as a share of its base; it is used with `damp=True` only.

        In a process group all ranks must call it: their counts are summed, so that every rank gets the ratios
        that one process would have got. Where nothing was recorded, logits or gaps were not finite or targets
        not allowed, it raises a ValueError and changes nothing; `reset` forgets such statistics.
        """
        with torch.no_grad():
            counts, faults = self.summed_statistics()
            raise_faults(faults)
            if not counts.any():
                raise ValueError(notices.nothing_recorded(self.statistics))
            rate = self.schedule.rate_at(int(self.num_steps), lr_factor=lr_factor)
            gap = ratios.gaps(self.options, counts, self.class_counts)
            self._notices.look_at_counts(self.counts, summed=counts)
            self._set_ratio(functional.next_ratio(self.target_ratio, gap, rate))
            self._notices.look_at_keep(self.options, self.keep)
            self.num_steps += 1
            self.reset()
            divergence = functional.divergence(counts)
            return RatioUpdate(self.target_ratio.clone(), gap, divergence, self.keep.clone())

    def reset(self) -> None:
        """Forget the statistics recorded since the last `step`, bad values included; the ratios stay."""
        self.forget_outputs()
        self.faults.zero_()

    def forget_outputs(self) -> None:
        """Forget the recorded outputs alone; `step` still reports bad values."""
        self.counts.zero_()
        self._notices.forget_sources()

    def summed_statistics(self) -> tuple[Tensor, Tensor]:
        """Counts (2, C, num_bins) and faults (2,) summed over the process group; all ranks must call it."""
        return self.histograms.summed()

    def set_class_counts(self, positives: Any, negatives: Any) -> None:
        """Tell the loss that the data's class counts have changed; the target ratios stay.

        For samplers that draw other samples each epoch: Eq. 3 holds only for the ratio of what is drawn. A
        class that has had one label only, and so no target ratio, starts from its own ratio once it gets
        both.
        """
        class_counts = check_counts(stack_counts(positives, negatives))
        if class_counts.shape != self.class_counts.shape:
            raise ValueError(
                f"class counts must be of {self.num_classes} classes, got {class_counts.shape[1]}: "
                "did they come from another data set?"
            )
        has_none = ratios.lacks_target(self.class_counts, self.target_ratio)
        self.class_counts.copy_(class_counts)
        self._set_ratio(self.class_ratio.where(has_none, self.target_ratio))

    def extend_class_counts(self, positives: Any, negatives: Any) -> None:
        """Tell the loss that there are more data by now: how far the ratios are from their start stays.

        For training in parts. The start, `initial_ratio`, is that of all data so far.
        """
        moved = self.target_ratio / ratios.initial_ratio(self.options, self.class_counts)
        self.set_class_counts(positives, negatives)
        self._set_ratio(moved * ratios.initial_ratio(self.options, self.class_counts))

    def is_idle_for(self, num_epochs: int) -> bool:
        """Whether so many more epochs mask nothing, because the warm-up leaves the ratios for that long."""
        if self.warmup == 0 or bool((self.keep < 1).any()):
            return False
        return self.schedule.is_idle or int(self.num_steps) + num_epochs <= self.warmup + 1

    @property
    def supports_prior_shift(self) -> bool:
        """Whether `prior_shift` is valid for the loss: cross-entropy that weighs both labels alike."""
        return takes_prior_shift(self.loss)

    def prior_shift(self) -> Tensor:
        """log(r / r̄), shape (C,): added to logits, it undoes the ratios that training was held at.

        The ratios are those that the last training `forward` was masked by, as part of the state: a `step`
        or new class counts show with the next one. Before the first they are those to start from. A class
        that was trained unmasked, for lack of a label, has the shift 0.

        Turns outputs back into probabilities under the data's own prior. Valid for binary cross-entropy, also
        with constant class weights; approximate while the ratios still move; for other losses a warning says
        that the result is no probability.
        """
        if not self.supports_prior_shift:
            notices.wrong_shift(self.loss)
        return ratios.prior_shift(self.trained_keep)

    def extra_repr(self) -> str:
        """The options that tell one instance from another."""
        return (
            f"num_classes={self.num_classes}, rate={self.rate:g}, adapt={self.options.adapt_name}, "
            f"num_bins={self.num_bins}, expected={self.options.expected}, reduction={self.reduction}"
        )

    def _read(self, logits: Tensor, targets: Tensor, *, guard: bool = True) -> LabelBatch:
        self._follow(logits.device)
        batch = read(logits, targets, num_classes=self.num_classes, guard=guard)
        if self.options.validate and batch.faults is not None:
            raise_faults(batch.faults)
        return batch

    def _follow(self, device: torch.device) -> None:
        """Go to the device of the logits; but not to the one of tensors without values."""
        if device != self.keep.device and device.type not in _WITHOUT_VALUES:
            with torch.inference_mode(False):  # which would make buffers that no step can change
                self.to(device)

    def _set_ratio(self, target_ratio: Tensor) -> None:
        self.target_ratio.copy_(ratios.clip(self.options, target_ratio, self.class_counts))
        self.keep.copy_(ratios.keep(self.class_counts, self.target_ratio))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in ("class_counts", "num_steps"):
            check_state(name, state_dict.get(prefix + name))
        for name in ("target_ratio", "trained_keep"):
            check_state(name, state_dict.get(prefix + name), ratios=True)
        self.histograms.check_state(state_dict, prefix + "histograms.")
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.keep.copy_(ratios.keep(self.class_counts, self.target_ratio))
