"""The criterion `PartialLabelMasking`: the masked loss (Eq. 2 and 3) and the updates of its ratios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import torch
from torch import Tensor

from tailmask import functional
from tailmask._util.exact_buffers import ExactBuffers
from tailmask._util.reduction import Reduction
from tailmask.masking import criterion_warnings, kernels, ratios
from tailmask.masking.batch_reduction import Loss, reduced_loss, sample_column, takes_prior_shift
from tailmask.masking.class_counts import check_counts, count_classes, stack_counts
from tailmask.masking.criterion_options import Gap, InitialRatio, Options, StatisticsSource, check_loss
from tailmask.masking.histograms import OutputHistograms, check_state
from tailmask.masking.label_batch import LabelBatch, raise_faults, read
from tailmask.masking.label_mask import can_fuse, fused_loss, label_weight
from tailmask.masking.ratios import RatioUpdate
from tailmask.masking.schedule import Schedule

__all__ = ["PartialLabelMasking"]


class PartialLabelMasking(ExactBuffers):
    """Partial Label Masking (Duarte et al. 2021): a loss that masks single labels of single samples.

    Each class is trained at its own ratio of positives to negatives: labels are left out of the loss at
    random (Eq. 2 and 3). `forward` also counts the outputs in histograms. `step`, called once per epoch like
    a scheduler, moves each class's ratio by how far its outputs are from the truth (Eq. 4 to 7). The loss
    moves itself to the device of the logits.

    >>> targets = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> criterion = PartialLabelMasking.from_targets(targets)
    >>> logits = torch.tensor([[2.0, -2.0], [1.0, 1.0], [3.0, -2.0], [2.0, -1.0]], requires_grad=True)
    >>> criterion(logits, targets)  # nothing is masked before the first step
    tensor(0.8120, grad_fn=<BinaryCrossEntropyWithLogitsBackward0>)
    >>> criterion.step().target_ratio  # the first class is over-predicted, the second under-predicted
    tensor([2.9406, 0.3401])

    Args:
        class_counts: Negatives and positives of each class in the training data, shape (2, C). `from_targets`
            and `from_counts` compute them.
        loss: Elementwise loss, (logits, targets) → (N, C) without a reduction; None is binary cross-entropy.
        rate: λ of Eq. 7; None is 0.01, and for `adapt="prevalence"` 18 / `epochs`, at most 0.5 (below 14
            epochs 7 / `epochs`, at most 1; 0.1 if `epochs` is None).
        adapt: The update of the ratios. "divergence" is the paper's. "prevalence" matches the predicted share
            of positives to the true one and converges; it uses outputs on validation data. Or a function
            from the counts (2, C, num_bins) to each class's gap (C,). "divergence" compares classes: with two
            classes only the signs count (D_c is ±2, ±1 or 0), and a single class never moves.
        num_bins: τ, the number of bins of the output probabilities.
        initial_ratio: "class" (the data's own ratios), their "mean", "min" or "max", or numbers (C,).
        ratio_range: Lowest and highest target ratio, from the first batch on: a class whose own ratio is
            outside is masked before the first `step`. The paper uses (0, 1) on MSCOCO.
        warmup: Number of first steps that do not change the ratios; None is 0, and for `adapt="prevalence"`
            half of `epochs` (5 if `epochs` is None).
        hold: Number of steps after which the ratios no longer change; below 1 a share of `epochs`. With None
            they always change.
        damp: Multiply λ by the learning rate's factor; `step` then needs `lr_factor`.
        epochs: Number of training epochs, for `adapt="prevalence"` and for a share as `hold`; None if not
            known.
        classes: Names of the classes for warnings; None uses indices.
        statistics: The outputs that move the ratios: "training" uses those of `forward` in training,
            "validation" only those given to `update`. None is "validation" for `adapt="prevalence"`, else
            "training".
        expected: Weight labels by their keep probability instead of drawing: the same expected loss, without
            the variance of the draw.
        reduction: "mean" over the known labels as in torch.nn; "batchmean", the paper's: summed over classes,
            mean over samples; "sum"; or "none", (N, C).
        generator: Random generator of the masks; None is torch's own. A generator breaks the graph of
            torch.compile.
        validate: Check values in every `forward` rather than in `step`; waits for the device.
    """

    class_counts: Tensor  # (2, C) negatives and positives in the data
    target_ratio: Tensor  # (C,) r̄
    num_steps: Tensor  # ()
    keep: Tensor  # (2, C) keep probabilities of the current epoch, derived from the ratios
    trained_keep: Tensor  # (2, C) keep probabilities of the last training pass

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
        self._notices = criterion_warnings.StepNotices()
        self._keep_in_use: tuple[Tensor, ...] | None = None  # (C,) of each label; None until it is in use
        criterion_warnings.incomplete_classes(self.options, class_counts)
        criterion_warnings.too_few_classes(self.options, class_counts, rate=self.schedule.rate)

    def _make_buffers(self, class_counts: Tensor) -> None:
        """Register all state that a step or a batch changes, on the device of the class counts."""
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
        """The update of the ratios, as given to the constructor."""
        return self.options.adapt

    @property
    def reduction(self) -> Reduction:
        """The reduction of a batch's losses."""
        return self.options.reduction

    @property
    def rate(self) -> float:
        """λ after the warm-up."""
        return self.schedule.rate

    @property
    def warmup(self) -> int:
        """Number of first steps that do not change the ratios."""
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
        """Number of logits that were not finite and of targets not allowed since the last step, (2,)."""
        return self.histograms.faults

    def forward(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Masked loss of a batch (Eq. 2); in training it also records the outputs for the next `step`.

        Logits and targets have the shape (N, C), or (N, C, …) with the class on axis 1; integer targets
        without the class axis are class indices. `sample_weight` has the shape (N,). In evaluation mode, or
        without gradients, nothing is masked or recorded.
        """
        active = self.training and torch.is_grad_enabled()
        histograms = self.histograms
        if (
            active
            and sample_weight is None
            and self.loss is None
            and self.options.reduction != "none"
            and not self.options.expected
            and kernels.is_small_and_plain(logits, targets, histograms.counts, self.generator)
        ):
            return self._small_loss(logits, targets, histograms.counts)
        batch = self._read(logits, targets, guard=active)
        column = None if sample_weight is None else sample_column(sample_weight, logits.shape)
        weight = None
        if active:
            self.trained_keep.copy_(self.keep)
            counts = histograms.counts if self.statistics == "training" else None
            if counts is not None:
                self._notices.by_forward = True
            drawn_by = self.keep, batch, self.options, self.generator
            if column is None and can_fuse(self.loss, *drawn_by):
                return fused_loss(*drawn_by, num_samples=len(logits), counts=counts)
            if counts is not None:
                histograms.add(batch)
            else:
                histograms.add_faults(batch)
            weight = label_weight(*drawn_by)  # (N, C)
        if column is not None:
            weight = column.expand_as(batch.logits) if weight is None else weight * column
        return reduced_loss(self.loss, batch, weight, reduction=self.reduction, shape=logits.shape)

    @torch.no_grad()
    def update(self, logits: Tensor, targets: Tensor) -> None:
        """Record a batch's outputs for the next `step`, without a loss.

        Use it for statistics on validation data, or on a separate pass over the training data. With
        `statistics="validation"` only these outputs count.

        In a process group `step` sums the counts of all ranks. So give each rank its own part of the data, or
        call `update` on one rank only. If every rank records the whole validation set, each sample counts
        once per rank, and rare classes seem to have more evidence than they have.
        """
        self.histograms.add(self._read(logits, targets))
        self._notices.by_update = True

    def step(self, *, lr_factor: float | None = None) -> RatioUpdate:
        """Move the target ratios by the outputs since the last step (Eq. 5 to 7); call once per epoch.

        `lr_factor` is the epoch's learning rate as a share of its base; only `damp=True` uses it.

        In a process group all ranks must call it: their counts are summed, and every rank gets the ratios
        that a single process would get. It raises a ValueError and changes nothing if nothing was recorded,
        if logits or gaps were not finite, or if targets were not allowed; `reset` clears such statistics.
        """
        with torch.no_grad():
            counts, faults = self.summed_statistics()
            raise_faults(faults)
            if not counts.any():
                raise ValueError(criterion_warnings.nothing_recorded(self.statistics))
            rate = self.schedule.rate_at(int(self.num_steps), lr_factor=lr_factor)
            gap = ratios.gaps(self.options, counts, self.class_counts)
            self._notices.look_at_counts(self.counts, summed=counts)
            self._set_ratio(functional.next_ratio(self.target_ratio, gap, rate))
            self._notices.look_at_keep(self.options, self.keep)
            self.num_steps.add_(1)  # `+=` would go through nn.Module, which takes as long as the update
            self.reset()
            divergence = functional.divergence(counts)
            return RatioUpdate(self.target_ratio.clone(), gap, divergence, self.keep.clone())

    def reset(self) -> None:
        """Clear the statistics recorded since the last `step`, including invalid values; keep the ratios."""
        self.forget_outputs()
        self.faults.zero_()

    def forget_outputs(self) -> None:
        """Clear only the recorded outputs; `step` still reports invalid values."""
        self.counts.zero_()
        self._notices.forget_sources()

    def summed_statistics(self) -> tuple[Tensor, Tensor]:
        """Counts (2, C, num_bins) and faults (2,) summed over the process group; all ranks must call it."""
        return self.histograms.summed()

    def set_class_counts(self, positives: Any, negatives: Any) -> None:
        """Set new class counts of the data; the target ratios stay.

        For samplers that draw different samples each epoch: Eq. 3 needs the class ratio of the drawn samples.
        A class with only one label so far has no target ratio; it starts from its own ratio once it has both.
        """
        class_counts = check_counts(stack_counts(positives, negatives))
        if class_counts.shape != self.class_counts.shape:
            raise ValueError(
                f"class counts must have {self.num_classes} classes, got {class_counts.shape[1]}: "
                "did they come from another data set?"
            )
        has_none = ratios.lacks_target(self.class_counts, self.target_ratio)
        self.class_counts.copy_(class_counts)
        self._set_ratio(self.class_ratio.where(has_none, self.target_ratio))

    def extend_class_counts(self, positives: Any, negatives: Any) -> None:
        """Set the class counts after more data arrived; each ratio keeps its factor over its initial ratio.

        For training in parts. The initial ratio is computed from all data so far.
        """
        moved = self.target_ratio / ratios.initial_ratio(self.options, self.class_counts)
        self.set_class_counts(positives, negatives)
        self._set_ratio(moved * ratios.initial_ratio(self.options, self.class_counts))

    def is_idle_for(self, num_epochs: int) -> bool:
        """True if the next `num_epochs` epochs mask nothing, because the ratios do not change in time."""
        if self.warmup == 0 or bool((self.keep < 1).any()):
            return False
        return self.schedule.is_idle or int(self.num_steps) + num_epochs <= self.warmup + 1

    @property
    def supports_prior_shift(self) -> bool:
        """True if `prior_shift` is valid for the loss: cross-entropy with equal weights for both labels."""
        return takes_prior_shift(self.loss)

    def prior_shift(self) -> Tensor:
        """log(r / r̄), shape (C,): added to logits, it undoes the effect of the training ratios.

        The shifted outputs are probabilities under the data's own prior. This holds for binary cross-entropy,
        also with constant class weights, and approximately while the ratios still move. For other losses a
        warning says that the results are not probabilities.

        The ratios are those of the last `forward` in training, which are part of the state. A `step` or new
        class counts take effect with the next `forward`; before the first one the initial ratios are used. A
        class with only one label is trained unmasked and has the shift 0.
        """
        if not self.supports_prior_shift:
            criterion_warnings.wrong_shift(self.loss)
        return ratios.prior_shift(self.trained_keep)

    def extra_repr(self) -> str:
        """The main options, for `repr`."""
        return (
            f"num_classes={self.num_classes}, rate={self.rate:g}, adapt={self.options.adapt_name}, "
            f"num_bins={self.num_bins}, expected={self.options.expected}, reduction={self.reduction}"
        )

    def _small_loss(self, logits: Tensor, targets: Tensor, counts: Tensor) -> Tensor:
        """The loss of a small batch in training, with few calls, because they cost more than arithmetic."""
        if self._keep_in_use is None:
            self.trained_keep.copy_(self.keep)
            self._keep_in_use = self.keep.unbind()
        recorded = counts if self.statistics == "training" else None
        if recorded is not None:
            self._notices.by_forward = True
        return kernels.small_masked_cross_entropy(
            logits,
            targets,
            self._keep_in_use,
            counts=recorded,
            generator=self.generator,
            reduction=self.options.reduction,  # type: ignore[arg-type]  # never "none"
        )

    def _read(self, logits: Tensor, targets: Tensor, *, guard: bool = True) -> LabelBatch:
        self._follow(logits.device)
        batch = read(logits, targets, num_classes=self.num_classes, guard=guard)
        if self.options.validate and batch.faults is not None:
            raise_faults(batch.faults)
        return batch

    def _follow(self, device: torch.device) -> None:
        """Move to the device of the logits, unless that device has no values."""
        if device != self.keep.device and device.type != "meta":
            with torch.inference_mode(False):  # no step could change inference tensors
                self.to(device)

    def _set_ratio(self, target_ratio: Tensor) -> None:
        self.target_ratio.copy_(ratios.clip(self.options, target_ratio, self.class_counts))
        self._derive_keep()

    def _derive_keep(self) -> None:
        self.keep.copy_(ratios.keep(self.class_counts, self.target_ratio))
        self._keep_in_use = None

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in ("class_counts", "num_steps"):
            check_state(name, state_dict.get(prefix + name))
        for name in ("target_ratio", "trained_keep"):
            check_state(name, state_dict.get(prefix + name), ratios=True)
        self.histograms.check_state(state_dict, prefix + "histograms.")
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._derive_keep()
