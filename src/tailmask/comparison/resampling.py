"""The measures of a run under resampled test sets, from sums over groups of samples.

A large test set is split at random into about two thousand groups. Groups are drawn with replacement instead
of samples. Random groups are as independent as the samples, so the intervals stay valid, and a resample costs
no more than one of two thousand samples. A smaller test set has one sample per group: the ordinary bootstrap.
If samples belong to clusters, the clusters are split into groups instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tailmask.comparison.clusters import numbered
from tailmask.comparison.sample_influence import average_precision_influence
from tailmask.metrics import Confusion, Evaluation, bootstrap_weights
from tailmask.metrics.classwise import outcomes
from tailmask.metrics.known_labels import blocks

__all__ = ["Resampler", "Resamples"]

MAX_GROUPS = 2000
# Limit of numbers in memory, for any number of classes: for the sums of one run (five per group and class),
# and for the counts of a block of resamples.
MAX_SUMS = 2**23
MIN_GROUPS, MIN_RESAMPLES = 100, 200


@dataclass(frozen=True)
class Resamples:
    """Measures of one run under B resampled test sets.

    `summary` has them by name, (B,). `classes` has the F1 of each class, or the recall for single-label data,
    (B, C); with many classes it covers only the first resamples.
    """

    summary: dict[str, Tensor]
    classes: Tensor


class Resampler:
    """Resampled test sets, the same for all runs: differences of two runs are paired.

    Samples with the same number in `clusters` (N,) are drawn together. With two clusters per sample, (N, 2),
    the weight of a sample is the mean of its clusters' weights. `strata` (M,) gives a number to each cluster,
    in the order of `numbered`; clusters are then drawn within their stratum.

    >>> resampler = Resampler(num_samples=50, num_classes=2, num_resamples=100)
    >>> targets = torch.tensor([[1, 0], [0, 1]]).repeat(25, 1)
    >>> perfect = resampler.resample(Evaluation(targets * 8.0 - 4.0, targets))
    >>> perfect.summary["f1"].min(), perfect.classes.shape
    (tensor(1., dtype=torch.float64), torch.Size([100, 2]))
    """

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        *,
        num_resamples: int = 2000,
        seed: int = 0,
        clusters: Tensor | None = None,
        strata: Tensor | None = None,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        affordable = max(MIN_GROUPS, MAX_SUMS // (5 * num_classes))
        cluster = torch.arange(num_samples) if clusters is None else numbered(clusters)
        stratum = torch.zeros(int(cluster.max()) + 1) if strata is None else strata  # (M,)
        group = torch.empty(len(stratum), dtype=torch.int64)
        weights: list[Tensor] = []
        self.num_groups = 0
        for number in sorted(set(stratum.tolist())):
            inside = (stratum == number).nonzero().flatten()
            share = min(MAX_GROUPS, affordable) * len(inside) // len(stratum)
            size = min(len(inside), max(2, share))
            group[inside] = torch.randperm(len(inside), generator=generator) % size + self.num_groups
            weights.append(bootstrap_weights(size, num_resamples, generator=generator))
            self.num_groups += size
        self.group = group[cluster]  # (N,) or (N, 2)
        self.weights = torch.cat(weights, dim=1).to(torch.float32)  # (B, groups)
        self.num_class_resamples = min(num_resamples, max(MIN_RESAMPLES, MAX_SUMS // num_classes))

    def resample(self, evaluation: Evaluation) -> Resamples:
        """All measures except calibration, over all classes and for each class.

        Average precision is not a function of sums. Its change is computed from the sum of its samples'
        influences: a first-order approximation, good for large test sets.
        """
        summary, of_classes = self._from_counts(evaluation)
        summary |= self._sample_means(evaluation) | self._average_precision(evaluation)
        return Resamples(summary, of_classes)

    def _sums(self, values: Tensor) -> Tensor:
        """Sums of values (N, M) over the samples of each group, (groups, M).

        A sample in two groups counts half in each.
        """
        sums = torch.zeros(self.num_groups, values.shape[1])
        columns = self.group.view(len(values), -1).unbind(dim=1)
        for column in columns:
            sums.index_add_(0, column, values.to(torch.float32), alpha=1 / len(columns))
        return sums

    def _from_counts(self, evaluation: Evaluation) -> tuple[dict[str, Tensor], Tensor]:
        counts = self._confusion_sums(evaluation)  # (groups, 4 · C)
        num_classes = evaluation.labels.shape[1]
        parts, of_classes, missing = [], [], self.num_class_resamples
        for rows in blocks(len(self.weights), num_classes, size=MAX_SUMS // 4):
            drawn = (self.weights[rows] @ counts).to(torch.float64).view(-1, 4, num_classes)
            block = Confusion(*drawn.unbind(dim=1))
            parts.append(evaluation.summarize(block, evaluation.class_measures(block)))
            if missing > 0:
                by_class = block.recall if evaluation.single_label else block.f1
                of_classes.append(by_class[:missing].to(torch.float32))
                missing -= len(by_class)
        summary = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        return summary, torch.cat(of_classes)

    def _confusion_sums(self, evaluation: Evaluation) -> Tensor:
        """The counts of each outcome per group and class, (groups, 4 · C), in the order of `Confusion`."""
        labels = evaluation.labels
        num_classes = labels.shape[1]
        sums = torch.empty(self.num_groups, 4, num_classes)
        for columns in blocks(num_classes, len(labels)):
            cells = outcomes(evaluation.predictions[:, columns], labels[:, columns])
            for outcome, cell in enumerate(cells):
                sums[:, outcome, columns] = self._sums(cell)
        return sums.view(self.num_groups, -1)

    def _sample_means(self, evaluation: Evaluation) -> dict[str, Tensor]:
        values = torch.stack(list(evaluation.samples.values()), dim=1)  # (N, M)
        sums = self._sums(torch.cat([values.nan_to_num(nan=0.0), ~values.isnan()], dim=1))
        totals, numbers = (self.weights @ sums).to(torch.float64).chunk(2, dim=1)
        return dict(zip(evaluation.samples, (totals / numbers).unbind(dim=1), strict=True))

    def _average_precision(self, evaluation: Evaluation) -> dict[str, Tensor]:
        labels = evaluation.labels
        influences, values = [], []
        for columns in blocks(labels.shape[1], len(labels), size=MAX_SUMS):
            influence, value = average_precision_influence(evaluation.scores[:, columns], labels[:, columns])
            influences.append(self._sums(influence))
            values.append(value)
        influence, value = torch.cat(influences, dim=1), torch.cat(values)
        members = {"ap": torch.arange(len(value))} | {f"ap_{k}": v for k, v in evaluation.groups.items()}
        defined = {name: index[~value[index].isnan()] for name, index in members.items()}
        means = torch.stack([influence[:, index].mean(dim=1) for index in defined.values()], dim=1)
        moved = (self.weights @ means - means.sum(dim=0)).to(torch.float64)  # (B, groups of classes)
        return {
            name: value[index].mean() + column
            for (name, index), column in zip(defined.items(), moved.unbind(dim=1), strict=True)
        }
