"""The finding in plain sentences, whatever it is: that a method helped, did harm, or made no difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tailmask.comparison.comparison_result import Comparison, Difference
from tailmask.comparison.measures import describe, primary
from tailmask.methods import RECOMMENDED, parse
from tailmask.metrics import class_groups

__all__ = ["Verdict", "interval_text", "lead_method", "points", "recommended", "verdict"]

Outcome = Literal["helped", "mixed", "unclear", "harmed", "nothing"]


@dataclass(frozen=True)
class Verdict:
    """The outcome in a word, and the sentences that say it."""

    outcome: Outcome
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """All sentences."""
        return " ".join(self.sentences)


def verdict(comparison: Comparison) -> Verdict:
    """What the comparison found for its leading method.

    It is judged by two measures that are chosen beforehand: F1 (of single labels: the error), as a mean over
    all classes and over the rarest third of them. Then it is held against what tuned thresholds do for the
    baseline, and against average precision, which thresholds do not change.
    """
    lead = lead_method(comparison)
    base = comparison.baseline
    if lead is None:
        return Verdict("nothing", (f"Only {base} was run: there is nothing to compare it with.",))
    whole_name, tail_name = primary(single_label=comparison.single_label)
    whole, tail = comparison.difference(lead, whole_name), comparison.difference(lead, tail_name)
    if whole is None:
        text = f"{lead} and {base} have no seed in common, so no difference can be paired"
        return Verdict("nothing", (f"{text}: train both with the same seeds.",))
    outcome, sentence = _finding(comparison, lead, whole, tail)
    sentences = [sentence, *_untested(comparison)]
    if not comparison.single_label:
        sentences += _untrained(comparison, lead)
        sentences += _against_thresholds(comparison, lead, gained=outcome in ("helped", "mixed"))
        sentences += _ranking(comparison, lead)
    sentences += _others(comparison, lead, whole_name)
    sentences.append(_caution(whole, unit=comparison.unit))
    return Verdict(outcome, tuple(sentences))


def lead_method(comparison: Comparison) -> str | None:
    """The method that a verdict is about: the recommended one if it is there, else the first that masks."""
    others = [method.name for method in comparison.methods[1:]]
    masking = [name for name in others if parse(name).masking is not None]
    return next(iter([*recommended(others), *masking, *others]), None)


def recommended(methods: Iterable[str]) -> list[str]:
    """Those of the methods that are the recommended one, whatever their λ; the one that names none first.

    >>> recommended(["bce", "plm", "plm:rate=0.003,adapt=prevalence", "plm:adapt=prevalence+focal"])
    ['plm:rate=0.003,adapt=prevalence']
    """
    found = []
    for name in methods:
        method = parse(name)
        if method.masking is not None:
            found += [name] if str(method.with_options("plm", rate=None)) == RECOMMENDED else []
    return sorted(found, key=lambda name: name != RECOMMENDED)


def points(value: float, *, sign: bool = True, digits: int = 1) -> str:
    """A share in percentage points.

    >>> points(0.0312), points(-0.00004), points(0.648, sign=False)
    ('+3.1', '0.0', '64.8')
    """
    rounded = round(100.0 * value, digits)
    shown = "+" if sign and rounded > 0 else "−" if rounded < 0 else ""
    return f"{shown}{abs(rounded):.{digits}f}"


def interval_text(difference: Difference, *, digits: int = 1) -> str:
    """The ends of an interval.

    >>> interval_text(Difference("plm", "default", "default", "f1", 0.02, -0.004, 0.044, 3))
    '−0.4 to +4.4'
    """
    return f"{points(difference.low, digits=digits)} to {points(difference.high, digits=digits)}"


def _finding(
    comparison: Comparison, lead: str, whole: Difference, tail: Difference | None
) -> tuple[Outcome, str]:
    name = describe(whole.metric).label.partition(",")[0]
    overall = _clause(comparison, whole, f"{name} over all classes")
    on_tail, rare = 0, ""
    if tail is not None:
        on_tail, rare = tail.effect, _clause(comparison, tail, f"{name} over the rarest third of the classes")
    beside = f", {'and' if on_tail == whole.effect else 'while'} {rare}" if rare else ""
    if whole.effect > 0 and on_tail >= 0:
        return "helped", f"{lead} helped: {overall}{beside}."
    if whole.effect > 0:
        return "mixed", f"{lead} helped on the whole, but not where classes are rare: {overall}, but {rare}."
    if whole.effect < 0 and on_tail <= 0:
        return "harmed", f"{lead} did harm: {overall}{beside}."
    if whole.effect < 0:
        return "mixed", f"{lead} helped rare classes at the expense of the others: {rare}, but {overall}."
    if on_tail > 0:
        return "helped", f"{lead} helped rare classes: {rare}, while {overall}."
    if on_tail < 0:
        return "harmed", f"{lead} did harm to rare classes: {rare}, while {overall}."
    return "unclear", f"{lead} made no clear difference: {overall}{beside}."


def _clause(comparison: Comparison, difference: Difference, subject: str) -> str:
    """A difference in words: which way, from what to what, and how sure that is."""
    ends = f"95 % interval {interval_text(difference)}"
    before = comparison.row(comparison.baseline, difference.metric, difference.reference)
    after = comparison.row(difference.method, difference.metric, difference.decision)
    if before is not None and after is not None and before.mean == after.mean == 0:
        return f"{subject} is 0 with both"
    if difference.effect == 0:
        return f"{subject} did not clearly change ({points(difference.mean)} points, {ends})"
    course = ""
    if before is not None and after is not None and before.n == after.n == difference.n:
        course = f" from {points(before.mean, sign=False)} to {points(after.mean, sign=False)}"
    moved = "rose" if difference.mean > 0 else "fell"
    return f"{subject} {moved} by {points(abs(difference.mean), sign=False)} points{course} ({ends})"


def _untested(comparison: Comparison) -> list[str]:
    """Of which classes the test samples cannot tell anything."""
    absent = {index for index, number in enumerate(comparison.test_positives) if number == 0}
    if not absent:
        return []
    groups = class_groups(comparison.train_positives)
    tail = set(groups["tail"].tolist()) if "tail" in groups else set()
    meaning = "left out" if comparison.single_label else "with an F1 of 0 whatever the method"
    among = f", among them {len(absent & tail)} of the {len(tail)} rarest" if absent & tail else ""
    return [
        f"Without a test sample, and so {meaning}: {len(absent)} of {len(comparison.classes)} classes{among}."
    ]


def _untrained(comparison: Comparison, lead: str) -> list[str]:
    rows = [comparison.row(method, "f1") for method in (comparison.baseline, lead)]
    if any(row is None or row.mean > 0 for row in rows):
        return []
    return ["At the plain threshold neither gets a single label right: train for more epochs."]


def _against_thresholds(comparison: Comparison, lead: str, *, gained: bool) -> list[str]:
    base = comparison.baseline
    both = comparison.difference(lead, "f1", decision="tuned thresholds", reference="tuned thresholds")
    plain, rival = comparison.row(lead, "f1"), comparison.row(base, "f1", "tuned thresholds")
    if both is None or plain is None or rival is None:
        missing = f"Whether thresholds tuned on validation would do as much for {base} was not measured."
        return [missing] if gained else []
    tail = comparison.difference(lead, "f1_tail", decision="tuned thresholds", reference="tuned thresholds")
    rare = "" if tail is None else f", and {_standing(tail, 'over the rarest third of the classes')}"
    against = comparison.difference(lead, "f1", reference="tuned thresholds")
    lesson = {
        -1: ": thresholds alone do more here",
        0: ": thresholds alone may do as much here" if gained else "",
        1: f": {lead} alone does more than thresholds alone",
    }[0 if against is None else against.effect]
    return [
        f"With thresholds tuned on validation for both, {lead} is {_standing(both, 'in F1')}{rare}.",
        f"{base} with tuned thresholds reaches {points(rival.mean, sign=False)}, {lead} without them "
        f"{points(plain.mean, sign=False)}{lesson}.",
    ]


def _standing(difference: Difference, where: str) -> str:
    place = {1: "still ahead", 0: "not clearly ahead", -1: "behind"}[difference.effect]
    return f"{place} {where} ({points(difference.mean)} points, 95 % interval {interval_text(difference)})"


def _ranking(comparison: Comparison, lead: str) -> list[str]:
    difference = comparison.difference(lead, "ap")
    if difference is None:
        return []
    return [f"{_clause(comparison, difference, 'Average precision, which no threshold changes,')}."]


def _others(comparison: Comparison, lead: str, metric: str) -> list[str]:
    found: dict[int, list[str]] = {1: [], -1: [], 0: []}
    for method in comparison.methods[1:]:
        difference = comparison.difference(method.name, metric)
        if method.name != lead and difference is not None:
            found[difference.effect].append(f"{method.name} ({points(difference.mean)})")
    words = {1: "clearly better", -1: "clearly worse", 0: "not clearly different"}
    parts = [
        f"{_together(names)} {'is' if len(names) == 1 else 'are'} {words[effect]}"
        for effect, names in found.items()
        if names
    ]
    name = describe(metric).label.partition(",")[0]
    start = f"Of the other methods, in {name} against {comparison.baseline},"
    return [f"{start} {', '.join(parts)}."] if parts else []


def _together(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _caution(difference: Difference, *, unit: str | None) -> str:
    if difference.n == 1:
        return (
            "There is one seed only: the intervals hold for these trained models, not for the methods; "
            "train more seeds to know."
        )
    if difference.n == 2:
        return "Two seeds say little about the chance in training: train more."
    samples = "test samples" if unit is None else f"test samples, resampled by {unit},"
    return f"The intervals are over {samples} and {difference.n} seeds."
