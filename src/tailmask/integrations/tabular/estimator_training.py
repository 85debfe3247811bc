"""Training of the estimator with the loop for tables: rows, early stopping, and ratios."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tailmask._util.label_values import as_tensor
from tailmask.integrations.tabular.held_out_samples import hold_out
from tailmask.integrations.tabular.perceptron import Perceptron, SparseRows, take_rows
from tailmask.masking import PartialLabelMasking
from tailmask.metrics import average_precision, confusion
from tailmask.training.tables.optimizers import Optimizer
from tailmask.training.tables.table_loop import TableLoop, batches

__all__ = ["Training", "TrainingRows", "as_counts"]

# Sparse products are slower per stored value than dense ones: below this share of stored values they are
# faster.
_SPARSE_SHARE = 0.1

# The count of the heaviest label if weights are not whole numbers.
_HEAVIEST = 10**12


def as_counts(weights: Tensor) -> Tensor:
    """Whole numbers proportional to the float64 weights. A weight above 0 gives at least 1.

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
    targets: Tensor  # (N, C) 0, 1, or −1 if unknown
    weights: Tensor | None  # (N,) float64

    @property
    def row_bytes(self) -> int:
        """Bytes of a dense row of features."""
        return 4 * int(self.features.shape[1])

    def batch(self, index: Tensor) -> tuple[Any, ...]:
        """Features (B, F) and targets (B, C) in float32, and the weights (B,) if there are any."""
        rows = index.numpy()
        features: Any = SparseRows(self.features[rows]) if self._is_thin else take_rows(self.features, rows)
        targets = self.targets.index_select(0, index)
        if self.weights is None:
            return features, targets
        return features, targets, self.weights.index_select(0, index).float()

    @property
    def _is_thin(self) -> bool:
        number, width = self.features.shape
        return hasattr(self.features, "nnz") and self.features.nnz < _SPARSE_SHARE * number * width

    def weighted(self, weights: Any) -> TrainingRows:
        """The rows with weights; rows with weight zero are left out."""
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
        """Rows repeated by their weight, the lightest once, with at most about ten times as many rows.

        For functions that take no weights.

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
        """The kept rows and the held-out rows."""
        kept, held = hold_out(self.targets, fraction, generator)
        if not len(held):
            number = int((self.targets >= 0).any(dim=1).sum())
            raise ValueError(
                f"{number} labelled samples are too few to hold some out: raise validation_fraction"
            )
        return self.at(kept), self.at(held)

    def label_weights(self) -> Tensor:
        """Total weight (or number) of each class's negatives and positives, (2, C) in float64."""
        labels = torch.stack([self.targets == 0, self.targets == 1]).double()  # (2, N, C)
        return labels.sum(dim=1) if self.weights is None else self.weights @ labels


class Training:
    """A network in training, with its criterion, its optimiser and its history.

    Args:
        network: The network to train.
        criterion: Its loss. With `statistics="validation"`, its statistics come from the held-out rows.
        label_weights: Label weights (2, C) of the rows so far; the criterion's class counts are made of them.
        lr, decay: Learning rate and weight decay.
        batch_size: Rows per step.
        single_label: True if a sample has one class, the one with the highest output.
        generator: Draws the order of the rows and the masks.
    """

    def __init__(
        self,
        network: Perceptron,
        criterion: PartialLabelMasking,
        *,
        label_weights: Tensor,
        lr: float,
        decay: float,
        batch_size: int,
        single_label: bool,
        generator: torch.Generator,
    ) -> None:
        self.network = network
        self.criterion = criterion
        self.label_weights = label_weights
        self.lr = lr
        self.optimizer = Optimizer([(list(network.parameters()), decay)], name="adamw")
        self.batch_size = batch_size
        self.single_label = single_label
        self.generator = generator
        self.losses: list[float] = []  # of each epoch
        self.ratios: list[Tensor] = []  # (C,) during each epoch
        self.scores: list[float] = []  # mean F1 on the held-out rows

    def run(
        self, rows: TrainingRows, held: TrainingRows | None, *, max_epochs: int, patience: int | None
    ) -> None:
        """Train; with `patience`, until the held-out score has not risen for that many epochs.

        Epochs of the warm-up don't count, because the ratios have not moved yet. At the end, the weights and
        the ratios are those of the best epoch.
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
        with np.errstate(all="ignore"):  # as in torch, an overflow is no warning: it is an error below
            fault = loop.run(batches(rows, order, self.batch_size), lr=lambda step: self.lr)
        self.losses.append(loop.total / number)
        if fault is not None or not self.network.is_finite():
            what = "weights became" if fault is None else "logits were"
            raise ValueError(
                f"the network's {what} NaN or infinite: lower learning_rate, or scale the features"
            )
        if held is not None and self.criterion.statistics == "validation":
            self.criterion.update(self.network.predict(held.features), held.targets)
        if self.criterion.counts.any() or self.criterion.faults.any():  # both are zero if no label is known
            self.criterion.step()

    def add_label_weights(self, rows: TrainingRows) -> None:
        """Add the label weights of more data to the criterion's class counts."""
        self.label_weights = self.label_weights + rows.label_weights()
        negatives, positives = as_counts(self.label_weights)
        self.criterion.extend_class_counts(positives, negatives)

    def _score(self, held: TrainingRows) -> tuple[float, float]:
        """Mean F1 over the classes, and average precision, which already rises while F1 is still zero."""
        logits = self.network.predict(held.features)
        predictions = logits >= 0
        if self.single_label:
            predictions = torch.zeros_like(predictions).scatter_(1, logits.argmax(dim=1, keepdim=True), True)
        f1 = confusion(predictions, held.targets).f1.mean()
        return float(f1), float(average_precision(logits, held.targets).nanmean())
