"""All measures of a model on a test set, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from tailmask._util.label_values import as_tensor, check_probabilities, read_indices
from tailmask.metrics.classwise import Confusion, confusion
from tailmask.metrics.evaluation_report import Report
from tailmask.metrics.known_labels import as_labels, as_scores, as_thresholds, check_same_shape
from tailmask.metrics.precision_recall import average_precision
from tailmask.metrics.ranking import ranking_measures
from tailmask.metrics.rare_and_frequent import as_train_positives, optional_groups
from tailmask.metrics.reliability import brier_score, calibration_error
from tailmask.metrics.samplewise import exact_match, mean_over_samples, sample_f1

__all__ = ["Activation", "Evaluation", "activate", "averages", "evaluate", "group_averages"]

Activation = Literal["sigmoid", "softmax", "none"]


def evaluate(
    logits: Tensor,
    targets: Tensor,
    *,
    train_positives: Tensor | Sequence[int] | None = None,
    thresholds: float | Sequence[float] | Tensor = 0.5,
    activation: Activation = "sigmoid",
    single_label: bool = False,
    rarest: Sequence[int] = (),
    frequent: Sequence[int] = (),
    ks: Sequence[int] = (1, 3, 5),
) -> Report:
    """Every measure of this package for one model and test set; `Evaluation` describes them.

    >>> logits = torch.tensor([[2.0, -1.0], [1.0, 3.0], [-2.0, -0.5]])
    >>> targets = torch.tensor([[1, 0], [0, 1], [0, 1]])
    >>> report = evaluate(logits, targets, train_positives=torch.tensor([90, 10]), rarest=(1,))
    >>> report.summary["f1"], report.summary["recall_rarest_1"], report.summary["exact_match"]
    (0.6666666666666666, 0.5, 0.3333333333333333)
    >>> report.per_class["precision"]
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    return Evaluation(
        logits,
        targets,
        train_positives=train_positives,
        thresholds=thresholds,
        activation=activation,
        single_label=single_label,
        rarest=rarest,
        frequent=frequent,
        ks=ks,
    ).report()


class Evaluation:
    """A model's outputs on a test set, ready to be measured.

    Unknown targets (−1 or NaN) and samples without a known label are left out of everything. The summary
    has

    - `precision`, `recall`, `f1`: means over all classes, with 0/0 = 0 as in the paper (a class that is never
      present in the test data counts with recall 0); `ap`: the mean average precision over the classes that
      are present;
    - the same over groups of classes by training counts, if `train_positives` (C,) is given: `f1_tail`,
      `recall_rarest_3`, `precision_frequent_5`, … (see `class_groups`);
    - `micro_f1`, `sample_f1`, `exact_match`, `hamming_loss`;
    - `precision_at_k`, `ndcg_at_k` (for the `ks` up to the number of classes), over the samples with a
      present label; `ranking_loss`, over all samples (0 for a sample with all labels or none);
    - `ece`, `brier`: calibration, averaged over classes, and `ece_pooled` over all labels at once.

    A label is predicted if its probability is at least its threshold: one threshold for all classes or one
    per class, from 0 to 1. Pass `predictions` (N, C) if the labels were decided in another way.

    Single-label data (`targets` one-hot or class indices (N,), −1 for unknown) are predicted by arg max.
    Instead of the third and fourth item, the summary has `error` over samples, `error_balanced` over the
    classes that are present (the paper's "average error across all classes"), `error_rarest_5` and so on, and
    `ece_top`, the calibration error of only the predicted class.

    `activation` turns `logits` into probabilities; with `"none"` they are probabilities already. Ranks are
    computed from logits, because probabilities near one can be equal after rounding.

    >>> evaluation = Evaluation(torch.tensor([[3.0, -1.0], [-1.0, 2.0]]), torch.tensor([[1, 1], [0, 1]]))
    >>> evaluation.report().summary["recall"]
    0.75
    """

    def __init__(
        self,
        logits: Tensor,
        targets: Tensor,
        *,
        train_positives: Tensor | Sequence[int] | None = None,
        thresholds: float | Sequence[float] | Tensor = 0.5,
        predictions: Tensor | None = None,
        activation: Activation = "sigmoid",
        single_label: bool = False,
        rarest: Sequence[int] = (),
        frequent: Sequence[int] = (),
        ks: Sequence[int] = (1, 3, 5),
    ) -> None:
        scores = as_scores(logits)
        num_classes = scores.shape[1]
        self.single_label = single_label
        self.labels = _one_label_each(targets, num_classes) if single_label else as_labels(targets)
        check_same_shape(scores, self.labels, name="logits")
        self.scores, self.probabilities = activate(scores, activation)
        self.train_positives = as_train_positives(train_positives, num_classes)
        self.groups = optional_groups(self.train_positives, rarest=rarest, frequent=frequent)
        self.samples: dict[str, Tensor] = {}  # measures with one value per sample, (N,)
        if single_label:
            self.predictions = torch.zeros_like(self.labels, dtype=torch.bool)
            self.predictions.scatter_(1, self.scores.argmax(dim=1, keepdim=True), True)
            self.samples["error"] = 1.0 - exact_match(self.predictions, self.labels)
        else:
            limits = as_thresholds(thresholds, num_classes).to(self.probabilities)
            self.predictions = self.probabilities >= limits if predictions is None else predictions
            self.samples["exact_match"] = exact_match(self.predictions, self.labels)
            self.samples["sample_f1"] = sample_f1(self.predictions, self.labels)
            usable = [k for k in ks if k <= num_classes]
            self.samples |= ranking_measures(self.scores, self.labels, ks=usable)

    def report(self) -> Report:
        """All measures."""
        counts = confusion(self.predictions, self.labels)
        per_class = self.class_measures(counts) | {"ap": average_precision(self.scores, self.labels)}
        means = mean_over_samples(torch.stack(list(self.samples.values()), dim=1))
        summary = self.summarize(counts, per_class) | dict(zip(self.samples, means, strict=True))
        per_class["ece"], pooled = calibration_error(self.probabilities, self.labels)
        per_class["brier"] = brier_score(self.probabilities, self.labels)
        summary |= averages({name: per_class[name] for name in ("ece", "brier")}) | {"ece_pooled": pooled}
        if self.single_label:
            predicted = self.scores.argmax(dim=1, keepdim=True)
            confidence = self.probabilities.gather(1, predicted)
            summary["ece_top"] = calibration_error(confidence, self.labels.gather(1, predicted))[1]
        per_class["positives"] = counts.positives
        if self.train_positives is not None:
            per_class["train_positives"] = self.train_positives
        return Report({name: float(value) for name, value in summary.items()}, per_class)

    def class_measures(self, counts: Confusion) -> dict[str, Tensor]:
        """The measures of each class (…, C) that follow from its counts."""
        values = counts.measures()
        if self.single_label:
            values["error"] = (1.0 - counts.recall).masked_fill(counts.positives == 0, torch.nan)
        return values

    def summarize(self, counts: Confusion, per_class: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The means over all classes and over each group, with micro F1 and Hamming loss if multi-label."""
        summary = averages(per_class)
        if self.single_label:
            summary["error_balanced"] = summary.pop("error")
        else:
            summary |= {"micro_f1": counts.micro_f1, "hamming_loss": counts.hamming_loss}
        return summary | group_averages(per_class, self.groups)


def averages(per_class: Mapping[str, Tensor], classes: Tensor | None = None) -> dict[str, Tensor]:
    """Means of measures (…, C) over all classes or the given ones, without NaN values.

    >>> averages({"ap": torch.tensor([1.0, 0.5, torch.nan])})
    {'ap': tensor(0.7500)}
    """
    return {
        name: (values if classes is None else values[..., classes.to(values.device)]).nanmean(dim=-1)
        for name, values in per_class.items()
    }


def group_averages(per_class: Mapping[str, Tensor], groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The means over each group of classes, named after it.

    >>> group_averages({"f1": torch.tensor([1.0, 0.5, 0.0])}, {"tail": torch.tensor([1, 2])})
    {'f1_tail': tensor(0.2500)}
    """
    return {
        f"{name}_{group}": value
        for group, classes in groups.items()
        for name, value in averages(per_class, classes).items()
    }


def activate(scores: Tensor, activation: Activation) -> tuple[Tensor, Tensor]:
    """Scores to rank by, and probabilities.

    >>> activate(torch.tensor([[0.0, 2.0]]), "sigmoid")
    (tensor([[0., 2.]]), tensor([[0.5000, 0.8808]]))
    """
    if activation == "sigmoid":
        return scores, scores.sigmoid()
    if activation == "softmax":
        # Logarithms stay distinct if probabilities round to 0 or 1; logits of two samples can't be compared.
        logarithms = scores.log_softmax(dim=1)
        return logarithms, logarithms.exp()
    if activation == "none":
        check_probabilities(scores, hint="pass activation='sigmoid' or 'softmax' for logits")
        return scores, scores
    raise ValueError(f"activation must be 'sigmoid', 'softmax' or 'none', got {activation!r}")


def _one_label_each(targets: Any, num_classes: int) -> Tensor:
    """Single-label targets as rows of labels (N, C): one 1, or all −1 if the class is unknown."""
    targets = as_tensor(targets)
    if targets.ndim == 1:
        indices, _ = read_indices(targets, num_classes)
        targets = indices.unsqueeze(1) == torch.arange(num_classes, device=indices.device)
    present = as_labels(targets) == 1
    number = torch.count_nonzero(present, dim=1)
    if bool((number > 1).any()):
        raise ValueError(
            f"single-label targets must have one class per sample, got a sample with {int(number.max())}: "
            "evaluate with single_label=False"
        )
    return present.to(torch.int8).masked_fill_(number.eq(0).unsqueeze(1), -1)
