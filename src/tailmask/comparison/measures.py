"""The labels of the measures in `tailmask.metrics`, their better direction, and the main ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

__all__ = ["Measure", "describe", "headline", "ordered", "primary"]

Family = Literal["all", "groups", "ranking", "calibration"]

_NAMES = {
    "precision": "Precision",
    "recall": "Recall",
    "f1": "F1",
    "ap": "mAP",
    "error": "Error",
    "error_balanced": "Error, mean over classes",
    "micro_f1": "Micro F1",
    "sample_f1": "Sample F1",
    "exact_match": "Exact match",
    "hamming_loss": "Hamming loss",
    "ranking_loss": "Ranking loss",
    "ece": "Calibration error",
    "ece_pooled": "Calibration error, pooled",
    "ece_top": "Calibration error, top class",
    "brier": "Brier score",
}
_LOWER_IS_BETTER = ("error", "hamming_loss", "ranking_loss", "ece", "brier")
_GROUPED = re.compile(r"(precision|recall|f1|ap|error)_(head|medium|tail|rarest_(\d+)|frequent_(\d+))")
_AT = re.compile(r"(precision|ndcg)_at_(\d+)")
_MULTI_LABEL = ("precision", "recall", "ap", "exact_match")
_RANKING = ("precision_at_3", "ndcg_at_3", "ranking_loss")  # independent of thresholds
_ORDER = ("f1", "precision", "recall", "ap", "error_balanced", "error")


@dataclass(frozen=True)
class Measure:
    """A measure: its name, label, family and better direction."""

    name: str
    label: str
    family: Family
    higher_is_better: bool

    @property
    def heading(self) -> str:
        """The label for a table, with an arrow if lower is better.

        >>> describe("f1").heading, describe("ranking_loss").heading
        ('F1', 'Ranking loss ↓')
        """
        return self.label if self.higher_is_better else f"{self.label} ↓"


def describe(name: str) -> Measure:
    """The measure with this name in a summary.

    >>> describe("recall_rarest_3").label, describe("ndcg_at_5").label, describe("f1_tail").label
    ('Recall, 3 rarest', 'nDCG@5', 'F1, tail')
    >>> describe("hamming_loss").higher_is_better
    False
    """
    higher = not name.startswith(_LOWER_IS_BETTER)
    if match := _GROUPED.fullmatch(name):
        base, group, rarest, frequent = match.groups()
        where = f"{rarest} rarest" if rarest else f"{frequent} most frequent"
        where = where if rarest or frequent else group
        return Measure(name, f"{_NAMES[base]}, {where}", "groups", higher)
    if match := _AT.fullmatch(name):
        base, k = match.groups()
        return Measure(name, f"{'Precision' if base == 'precision' else 'nDCG'}@{k}", "ranking", higher)
    family: Family = "all"
    if name == "ranking_loss":
        family = "ranking"
    elif name.startswith(("ece", "brier")):
        family = "calibration"
    return Measure(name, _NAMES.get(name, name), family, higher)


def ordered(names: Iterable[str]) -> list[str]:
    """Measures in the order of a table: averages over all classes, groups, ranking, calibration.

    >>> ordered(["ranking_loss", "recall_tail", "recall", "f1_tail", "f1"])
    ['f1', 'recall', 'f1_tail', 'recall_tail', 'ranking_loss']
    """
    families = ("all", "groups", "ranking", "calibration")

    def place(indexed: tuple[int, str]) -> tuple[int, str, int, int]:
        index, name = indexed
        measure = describe(name)
        base = name.partition("_")[0] if measure.family == "groups" else name
        rank = _ORDER.index(base) if base in _ORDER else len(_ORDER)
        group = _group_place(name) if measure.family == "groups" else ""
        return families.index(measure.family), group, rank, index

    return [name for _, name in sorted(enumerate(names), key=place)]


def headline(names: Iterable[str], *, single_label: bool) -> list[str]:
    """The available measures that fit in a terminal, the most important first.

    >>> headline(["precision", "recall_rarest_3", "f1", "f1_tail", "micro_f1"], single_label=False)
    ['f1', 'f1_tail', 'recall_rarest_3', 'precision']
    """
    names = list(names)
    main = "error" if single_label else "f1"
    first = [*primary(single_label=single_label), f"{main}_medium", f"{main}_head"]
    last = ["error", "ap"] if single_label else [*_MULTI_LABEL, *_RANKING]
    rarest = [name for name in names if re.fullmatch(rf"({main}|recall)_rarest_\d+", name)]
    if single_label:
        rarest = [name for name in rarest if not name.startswith("recall")]
    return [name for name in [*first, *rarest, *last] if name in names]


def primary(*, single_label: bool) -> tuple[str, str]:
    """The two measures of the verdict, fixed beforehand: over all classes and over the tail.

    >>> primary(single_label=False)
    ('f1', 'f1_tail')
    """
    return ("error_balanced", "error_tail") if single_label else ("f1", "f1_tail")


def _group_place(name: str) -> str:
    group = name.partition("_")[2]
    kind, _, size = group.partition("_")
    place = ("tail", "rarest", "medium", "head", "frequent").index(kind)
    return f"{place}{size.zfill(9)}"
