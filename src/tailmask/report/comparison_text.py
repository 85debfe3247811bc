"""A comparison as text: CSV for programs, Markdown for documents."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence

from tailmask._util.markdown_text import escape, escape_prose, markdown_table
from tailmask.comparison.comparison_result import ClassGain, Comparison, Difference, Row, row_name
from tailmask.comparison.measures import describe
from tailmask.comparison.verdict_sentences import decision_words, points, recommended, verdict

__all__ = ["CSV_COLUMNS", "MARKDOWN_MARK", "footnote", "mean_text", "to_csv", "to_markdown"]

CSV_COLUMNS = (
    "method",
    "decision",
    "metric",
    "mean",
    "std",
    "n",
    "reference",
    "difference",
    "low",
    "high",
    "pairs",
)
MARKDOWN_MARK = "<!-- made by tailmask -->"


def to_csv(comparison: Comparison) -> str:
    """CSV with one line per method, decision, measure and comparison with the baseline.

    Values are from 0 to 1; an undefined value is empty.
    """
    differences: dict[tuple[str, str, str], list[Difference]] = {}
    for difference in comparison.differences:
        key = (difference.method, difference.decision, difference.metric)
        differences.setdefault(key, []).append(difference)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in comparison.rows:
        values = (row.method, row.decision, row.metric, _number(row.mean), _number(row.std), row.n)
        for each in differences.get((row.method, row.decision, row.metric), [None]):
            compared = [""] * 5
            if each is not None:
                ends = (_number(each.mean), _number(each.low), _number(each.high))
                compared = [row_name(comparison.baseline, each.reference), *ends, str(each.n)]
            writer.writerow([*values, *compared])
    return text.getvalue()


def to_markdown(comparison: Comparison) -> str:
    """Markdown with the verdict, the measures, the differences, and the classes that changed most."""
    data = escape(comparison.data)
    answer = verdict(comparison)
    parts = [MARKDOWN_MARK, f"# {data}", escape_prose(answer.text)]
    if answer.details:
        parts.append("\n".join(f"- {escape_prose(sentence)}" for sentence in answer.details))
    names = comparison.headline
    rows = []
    for method, decision in comparison.row_keys:
        found = [comparison.row(method, metric, decision) for metric in names]
        rows.append([row_name(method, decision), *(mean_text(row, digits=2) for row in found)])
    labels = [describe(metric).heading for metric in names]
    parts += ["## Measures, in %, mean ± deviation over seeds", markdown_table([["method", *labels], *rows])]
    others = [method.name for method in comparison.methods[1:]]
    if comparison.differences and others:
        parts += [*_differences(comparison, others), escape(footnote(comparison))]
        parts += _class_sections(comparison, others)
    return "\n\n".join(parts) + "\n"


def _differences(comparison: Comparison, methods: Sequence[str]) -> Iterator[str]:
    """A heading and a table for each decision, with one line per measure and one column per method."""
    base = escape(comparison.baseline)
    for decision in dict.fromkeys(decision for _, decision in comparison.row_keys):
        found = {
            (name, metric): each
            for name in methods
            for metric in comparison.headline
            if (each := comparison.like_for_like(name, metric, decision)) is not None
        }
        able = list(dict.fromkeys(name for name, _ in found))
        rows = [
            [describe(metric).heading, *(_difference_text(found.get((name, metric))) for name in able)]
            for metric in comparison.headline
        ]
        if able:
            same = {each.reference for each in found.values()} == {decision}
            how = (
                f"both {decision_words(decision)}"
                if same
                else f"{decision_words(decision)}, to {base} without"
            )
            yield f"## Difference to {base}, {how}, in points, with 95 % intervals"
            yield markdown_table([["", *able], *rows])


def footnote(comparison: Comparison) -> str:
    """A note on seeds, test samples and how to read the intervals."""
    seeds = ", ".join(f"{method.name} {len(method.seeds)}" for method in comparison.methods)
    budget = "" if comparison.budget == 1.0 else f" Trained with a budget of {comparison.budget:g}."
    pairs = {difference.n for difference in comparison.differences}
    samples = "test samples" if comparison.unit is None else f"test samples, resampled by {comparison.unit},"
    chance = f"{samples} alone, as there is one seed" if pairs == {1} else f"{samples} and seeds"
    text = (
        f"Seeds: {seeds}. {comparison.num_test} test samples.{budget} Intervals are over {chance}, for each "
        "measure by itself: about one in twenty leaves out zero by chance alone."
    )
    if len({method.seeds for method in comparison.methods}) > 1:
        text += f" Differences are over the seeds that a method has in common with {comparison.baseline}."
    base, decisions = comparison.baseline, {decision for _, decision in comparison.row_keys}
    if decisions != {"default"}:
        text += f" Every row is compared with {base} decided the same way."
    if "prior shift" in decisions and (base, "prior shift") not in comparison.row_keys:
        text += f" {base} has no prior shift: rows with it are compared with plain {base}."
    if not all(describe(metric).higher_is_better for metric in comparison.headline):
        text += " ↓: lower is better."
    for name in recommended(method.name for method in comparison.methods)[:1]:
        text += f" {name} is the form of PLM that is recommended for new data, plm the paper's."
    return text


def mean_text(row: Row | None, *, digits: int = 1) -> str:
    """Mean and deviation in percent.

    >>> mean_text(Row("plm", "default", "f1", 0.6741, 0.0052, 3))
    '67.4 ± 0.5'
    >>> mean_text(Row("plm", "default", "f1", 0.6741, math.nan, 1)), mean_text(None)
    ('67.4', '–')
    """
    if row is None or math.isnan(row.mean):
        return "–"
    mean = points(row.mean, sign=False, digits=digits)
    return mean if math.isnan(row.std) else f"{mean} ± {points(row.std, sign=False, digits=digits)}"


def _class_sections(comparison: Comparison, methods: Sequence[str]) -> list[str]:
    measure = "recall" if comparison.single_label else "F1"
    parts = []
    for method in methods:
        gained, lost = comparison.gains(method)
        for title, gains in (("gained", gained), ("lost", lost)):
            if gains:
                how = "" if comparison.single_label else f" {decision_words(comparison.class_decision)}"
                heading = f"## Classes that {title} most in {measure} with {escape(method)}{how}"
                parts += [heading, _gains(gains)]
    return parts


def _gains(gains: Sequence[ClassGain]) -> str:
    rows = [
        [
            gain.name,
            str(gain.train_positives),
            points(gain.baseline, sign=False),
            points(gain.value, sign=False),
            f"{points(gain.difference)} [{points(gain.low)}, {points(gain.high)}]",
        ]
        for gain in gains
    ]
    return markdown_table([["class", "training samples", "baseline", "method", "difference"], *rows])


def _difference_text(difference: Difference | None) -> str:
    if difference is None:
        return "–"
    mean, low, high = (points(each, digits=2) for each in (difference.mean, difference.low, difference.high))
    text = f"{mean} [{low}, {high}]"
    return f"**{text}**" if difference.effect else text


def _number(value: float) -> str:
    return "" if math.isnan(value) else repr(value)
