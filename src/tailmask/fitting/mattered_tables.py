"""The tables of the page's section "What mattered": the ablation, and the importance of the features."""

from __future__ import annotations

from collections.abc import Sequence

from tailmask.comparison.verdict_sentences import points
from tailmask.fitting.ablation import Step
from tailmask.fitting.importance import Importance
from tailmask.report.page_tables import SmallTable

__all__ = ["ablation_table", "importance_tables"]

_MOST_FEATURES, _MOST_LABELS = 15, 200  # rows on the page; importance.json has all


def ablation_table(steps: Sequence[Step]) -> SmallTable:
    """The steps with their out-of-fold scores in %, and their gains in points."""
    rows = [
        (
            *(step.name, step.method, "one per class" if step.decision == "tuned" else step.decision),
            *_scored(step.f1, step.f1_gain),
            *_scored(step.map, step.map_gain),
            step.against or "",
        )
        for step in steps
    ]
    return SmallTable(
        "Out-of-fold scores, step by step",
        ("Step", "Method", "Threshold", "F1, %", "Gain", "mAP, %", "Gain", "Gain over"),
        tuple(rows),
        note="Thresholds are fitted and scored on different folds. Gains are in points.",
        words=frozenset({1, 2, 7}),
    )


def importance_tables(importance: Importance) -> list[SmallTable]:
    """The most important features overall, and the top three of each label; or one note if there are none."""
    if not importance.features:
        return [SmallTable("Importance of the features", (), (), note=importance.note)]
    note = (
        "Drop in average precision, in points, if the values of one column are shuffled: "
        f"{importance.rows:,} rows that the model did not train on, {importance.repeats} times."
    )
    first = importance.features[:_MOST_FEATURES]
    overall = [(each.feature, _points(each.map_drop), ", ".join(each.may_leak)) for each in first]
    width = 3 if any(each.may_leak for each in first) else 2
    return [
        SmallTable(
            "Importance of the features",
            ("Feature", "Drop in mAP", "May be a leak of")[:width],
            tuple(row[:width] for row in overall),
            note=f"{note} Used: {importance.note}." if importance.note else note,
            words=frozenset({2}),
        ),
        SmallTable(
            "Top three features of each label",
            ("Label", "Average precision, %", "Features with their drops"),
            tuple(_label_row(importance, place) for place in range(len(importance.labels))[:_MOST_LABELS]),
            note="Features with a drop of one point or more.",
            words=frozenset({2}),
        ),
    ]


def _label_row(importance: Importance, place: int) -> tuple[str, str, str]:
    label, precision = importance.labels[place], importance.average_precision[place]
    leaks = {each.feature for each in importance.features if label in each.may_leak}
    texts = [
        f"{name} {_points(drop)}{' (may be a leak)' if name in leaks else ''}"
        for name, drop in importance.top(label)
    ]
    return label, "–" if precision is None else f"{100 * precision:.1f}", ", ".join(texts) or "none"


def _scored(value: float, gain: float | None) -> tuple[str, str]:
    return f"{100 * value:.1f}", "" if gain is None else points(gain)


def _points(share: float) -> str:
    return points(share, sign=False)
