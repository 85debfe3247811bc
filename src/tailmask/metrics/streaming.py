"""The threshold measures batch by batch, as a torchmetrics metric for training loops and DDP."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from tailmask.metrics.classwise import Confusion, confusion
from tailmask.metrics.evaluation import averages, group_averages
from tailmask.metrics.known_labels import as_scores, as_thresholds
from tailmask.metrics.rare_and_frequent import as_train_positives, optional_groups
from tailmask.metrics.samplewise import exact_match

__all__ = ["StreamingMetrics"]


class StreamingMetrics(Metric):
    """Precision, recall, F1, exact match, micro F1 and Hamming loss, accumulated over batches and ranks.

    The state is four counts per class for any number of samples; the names and values are those of
    `evaluate`. In Lightning: `update` in `validation_step`, then `self.log_dict(metric.compute())` and
    `metric.reset()` at the epoch's end.

    >>> metric = StreamingMetrics(2, train_positives=torch.tensor([90, 10]))
    >>> metric.update(torch.tensor([[2.0, -1.0], [1.0, 3.0]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.update(torch.tensor([[-2.0, -0.5]]), torch.tensor([[0, 1]]))
    >>> values = metric.compute()
    >>> values["f1"], values["recall_tail"]
    (tensor(0.6667, dtype=torch.float64), tensor(0.5000, dtype=torch.float64))
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False
    counts: Tensor  # (4, C): the fields of Confusion
    matches: Tensor  # (2,): exactly matched samples, and samples with a known label

    def __init__(
        self,
        num_classes: int,
        *,
        thresholds: float | Sequence[float] | Tensor = 0.5,
        train_positives: Tensor | Sequence[int] | None = None,
        rarest: Sequence[int] = (),
        frequent: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.thresholds = as_thresholds(thresholds, num_classes)
        positives = as_train_positives(train_positives, num_classes)
        self.groups = optional_groups(positives, rarest=rarest, frequent=frequent)
        self.add_state("counts", torch.zeros(4, num_classes, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("matches", torch.zeros(2, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, logits: Tensor, targets: Tensor) -> None:
        """Count a batch: logits (N, C), and targets of 1 or 0, with −1 or NaN for unknown labels."""
        probabilities = as_scores(logits).float().sigmoid()
        predictions = probabilities >= self.thresholds.to(probabilities)
        self.counts += torch.stack(confusion(predictions, targets).cells)
        matched = exact_match(predictions, targets)
        self.matches += torch.stack([(matched == 1.0).sum(), (~matched.isnan()).sum()])

    def compute(self) -> dict[str, Tensor]:
        """The values so far, by name."""
        counts = Confusion(*self.counts.cpu())  # not every device has float64
        per_class = counts.measures()
        of_samples = {
            "micro_f1": counts.micro_f1,
            "hamming_loss": counts.hamming_loss,
            "exact_match": self.matches[0].cpu().double() / self.matches[1].cpu(),
        }
        return averages(per_class) | of_samples | group_averages(per_class, self.groups)
