"""Training of the estimator: its rows, early stopping, and the ratios, around the loop for tables."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tailmask._util.label_values import as_tensor
from tailmask.integrations.tabular.holdout import hold_out
from tailmask.integrations.tabular.perceptron import Perceptron, take_rows
from tailmask.masking import PartialLabelMasking
from tailmask.metrics import average_precision, confusion
from tailmask.training.tables.optimizers import Optimizer
from tailmask.training.tables.table_loop import TableLoop, batches

__all__ = ["Training", "TrainingRows", "as_counts"]

# What the heaviest label counts for where weights are no whole numbers.
_HEAVIEST = 10**12


def as_counts(weights: Tensor) -> Tensor:
    """Whole numbers in the relation of weights in float64; no weight is so light that nothing is left of it.

    >>> as_counts(torch.tensor([3.0, 2.0, 0.0])), as_counts(torch.tensor([0.5, 0.25, 1e-20]).double())
    (tensor([3, 2, 0]), tensor([1000000000000, 500000000000, 1]))
    """
    heaviest = float(weights.max())
    is_whole = weights.equal(weights.round()) and heaviest <= _HEAVIEST
    scaled = weights if is_whole else weights / heaviest * _HEAVIEST
    return scaled.round().clamp(min=1).where(weights > 0, 0.0).to(torch.int64)


class TrainingRows(NamedTuple):
    """Samples to train on or to hold out.

    >>> rows = TrainingRows(torch.eye(2).numpy(), torch.tensor([[1.0, 0.0], [0.0, -1.0]]), None)
    >>> rows.weighted([0.5, 1.5]).label_weights()
    tensor([[1.5000, 0.5000],
            [0.5000, 0.0000]], dtype=torch.float64)
    """

    features: Any  # array or CSR matrix (N, F) in float32
    targets: Tensor  # (N, C) 0, 1, and −1 where unknown
    weights: Tensor | None  # (N,) float64

    @property
    def row_bytes(self) -> int:
        """Bytes of a dense row of features."""
        return 4 * int(self.features.shape[1])

    def batch(self, index: Tensor) -> tuple[Tensor, ...]:
        """Features (B, F) and targets (B, C) in float32, with the weights (B,) where there are some."""
        features, targets = take_rows(self.features, index.numpy()), self.targets.index_select(0, index)
        if self.weights is None:
            return features, targets
        return features, targets, self.weights.index_select(0, index).float()

    def weighted(self, weights: Any) -> TrainingRows:
        """The rows with weights; those with the weight zero are left out."""
        weights = as_tensor(weights, name="sample_weight").to(torch.float64)
        index = weights.nonzero().flatten()
        if not len(index):
            raise ValueError("sample_weight must have a number above 0, got only zeros")
        return self._replace(weights=weights).at(index)

    def scaled(self) -> TrainingRows:
        """The rows with their weights scaled to a mean of one."""
        return self if self.weights is None else self._replace(weights=self.weights / self.weights.mean())

    def at(self, index: Tensor) -> TrainingRows:
        """The rows with these indices."""
        weights = None if self.weights is None else self.weights[index]
        return TrainingRows(self.features[index.numpy()], self.targets[index], weights)

    def repeated(self) -> TrainingRows:
        """Each row as often as it weighs, the lightest once, if ten times as many rows do for that.

        For what takes no weights.

        >>> rows = TrainingRows(torch.eye(3).numpy(), torch.eye(3), torch.tensor([0.6, 3.0, 0.3]))
        >>> rows.repeated().targets.sum(dim=0)
        tensor([ 2., 10.,  1.])
        """
        if self.weights is None:
            return self
        lightest = self.weights.min().clamp(min=self.weights.mean() / 10)
        ends = (self.weights / lightest).cumsum(dim=0).add(0.5).floor().long()
        times = ends.diff(prepend=ends.new_zeros(1))
        index = torch.arange(len(times), device=times.device).repeat_interleave(times)
        return self.at(index)._replace(weights=None)

    def split(self, fraction: float, generator: torch.Generator) -> tuple[TrainingRows, TrainingRows]:
        """The rows that stay, and those that are held out."""
        kept, held = hold_out(self.targets, fraction, generator)
        if not len(held):
            number = int((self.targets >= 0).any(dim=1).sum())
            raise ValueError(
                f"{number} labelled samples are too few to hold some out: raise validation_fraction"
            )
        return self.at(kept), self.at(held)

    def label_weights(self) -> Tensor:
        """Weight of the negatives and of the positives of each class (2, C) in float64, or their number."""
        labels = torch.stack([self.targets == 0, self.targets == 1]).double()  # (2, N, C)
        return labels.sum(dim=1) if self.weights is None else self.weights @ labels


class Training:
    """A network in training, with its criterion, its optimiser and its history.

    Args:
        network: What is trained.
        criterion: Its loss; one with `statistics="validation"` gets them from what is held out.
        label_weights: Those of the rows so far, (2, C), which the criterion's class counts stand for.
        rate, decay: Learning rate and weight decay.
        batch_size: Rows a step.
        single_label: Whether a sample has one class, the one with the highest output.
        generator: Source of the order of the rows and of the masks.
    """

    def __init__(
        self,
        network: Perceptron,
        criterion: PartialLabelMasking,
        *,
        label_weights: Tensor,
        rate: float,
        decay: float,
        batch_size: int,
        single_label: bool,
        generator: torch.Generator,
    ) -> None:
        self.network = network
        self.criterion = criterion
        self.label_weights = label_weights
        self.rate = rate
        self.optimizer = Optimizer([(list(network.parameters()), decay)], name="adamw")
        self.batch_size = batch_size
        self.single_label = single_label
        self.generator = generator
        self.losses: list[float] = []  # of each epoch
        self.ratios: list[Tensor] = []  # (C,) that each epoch was trained at
        self.scores: list[float] = []  # mean F1 on what is held out

    def run(
        self, rows: TrainingRows, held: TrainingRows | None, *, max_epochs: int, patience: int | None
    ) -> None:
        """Train until the score on what is held out has not risen for `patience` epochs, if that is given.

        Those of the warm-up don't count: the ratios, which are to raise it, have not moved yet. The weights
        are then those of the best epoch, and so are the ratios, which belong to them.
        """
        both = nn.ModuleList([self.network, self.criterion])
        first_move = self.criterion.warmup if self.criterion.rate > 0 else 0
        best = (-1.0, -1.0)
        state: dict[str, Tensor] = {}
        for epoch in range(max_epochs):
            self.run_epoch(rows, held)
            if patience is None or held is None:
                continue
            score = self._score(held)
            self.scores.append(score[0])
            if score > best:
                best, best_epoch = score, epoch
                state = copy.deepcopy(both.state_dict())
            elif epoch - max(best_epoch, first_move) >= patience:
                break
        if state:
            both.load_state_dict(state)

    def run_epoch(self, rows: TrainingRows, held: TrainingRows | None = None) -> None:
        """Train on all rows once, in a random order, then move the ratios."""
        self.ratios.append(self.criterion.target_ratio.clone())
        number = len(rows.targets)
        order = torch.randperm(number, generator=self.generator, device=self.generator.device)
        loop = TableLoop(self.network, self.criterion, self.optimizer)
        fault = loop.run(batches(rows, order, self.batch_size), rate=lambda step: self.rate)
        self.losses.append(loop.total / number)
        if fault is not None or not self.network.is_finite():
            what = "weights became" if fault is None else "logits were"
            raise ValueError(
                f"the network's {what} NaN or infinite: lower learning_rate, or scale the features"
            )
        if held is not None and self.criterion.statistics == "validation":
            self.criterion.update(self.network.predict(held.features), held.targets)
        if self.criterion.counts.any() or self.criterion.faults.any():  # not so where no label is known
            self.criterion.step()

    def add_label_weights(self, rows: TrainingRows) -> None:
        """Tell the criterion of more data."""
        self.label_weights = self.label_weights + rows.label_weights()
        negatives, positives = as_counts(self.label_weights)
        self.criterion.extend_class_counts(positives, negatives)

    def _score(self, held: TrainingRows) -> tuple[float, float]:
        """Mean F1 over the classes, and average precision, which rises already where F1 is still zero."""
        logits = self.network.predict(held.features)
        predictions = logits >= 0
        if self.single_label:
            predictions = torch.zeros_like(predictions).scatter_(1, logits.argmax(dim=1, keepdim=True), True)
        f1 = confusion(predictions, held.targets).f1.mean()
        return float(f1), float(average_precision(logits, held.targets).nanmean())
