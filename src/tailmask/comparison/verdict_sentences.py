"""The verdict in plain sentences: what to use, where the gain comes from, and what to keep in mind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tailmask.comparison.comparison_result import Comparison, Difference
from tailmask.comparison.measures import describe, primary
from tailmask.comparison.run_outputs import Decision
from tailmask.methods import RECOMMENDED, find_words, parse
from tailmask.metrics import class_groups
from tailmask.runs.decision_file import few_positives

__all__ = [
    "Verdict",
    "decision_words",
    "interval_text",
    "lead_method",
    "points",
    "recommended",
    "shown_decision",
    "verdict",
]

# The outcome of the chosen method, else of the shown method, against the baseline with the same decision.
Outcome = Literal["helped", "unclear", "harmed", "baseline", "nothing"]
_OUTCOMES: dict[int, Outcome] = {1: "helped", 0: "unclear", -1: "harmed"}


@dataclass(frozen=True)
class Verdict:
    """The outcome in one word, at most four sentences, and details to fold away."""

    outcome: Outcome
    sentences: tuple[str, ...]
    details: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The sentences without the details."""
        return " ".join(self.sentences)


def verdict(comparison: Comparison) -> Verdict:
    """The verdict: what to use by validation scores, its test result, and where the gain comes from.

    A method is always compared with the baseline with the same decision.
    """
    outcome, first = _choice(comparison) if comparison.chosen is not None else _no_choice(comparison)
    lead, decision = lead_method(comparison), shown_decision(comparison)
    if lead is None:
        alone = f"Only {comparison.baseline} was run: there is nothing to compare it with."
        return Verdict("nothing", (first, alone))
    whole = comparison.like_for_like(lead, primary(single_label=comparison.single_label)[0], decision)
    if whole is None:
        text = f"{lead} and {comparison.baseline} have no seed in common, so no difference can be paired"
        return Verdict("nothing", (first, f"{text}: train both with the same seeds."))
    source = [*_from_learner(comparison, lead, decision), *_from_masking(comparison, lead, decision)]
    ranking: list[str] = []
    doubt = _caution(whole)
    if not comparison.single_label:
        source = [*_from_thresholds(comparison), *source]
        ranking = _ranking(comparison, lead)
        doubt = [*_untrained(comparison, lead), *doubt]
    rest = [*source[:2], *doubt[:1], *source[2:], *ranking, *doubt[1:]]
    details = [*rest[3:], *_rare_classes(comparison, lead, decision)]
    details += [*_few_positives(comparison), *_untested(comparison)]
    return Verdict(outcome, (first, *rest[:3]), tuple(details))


def lead_method(comparison: Comparison) -> str | None:
    """The method to show with the baseline: the chosen one, else the recommended one, else one that masks."""
    others = [method.name for method in comparison.methods[1:]]
    chosen = [] if comparison.chosen is None else [comparison.chosen.method]
    masking = [name for name in others if _masks(name)]
    ranked = [name for name in chosen if name in others]
    return next(iter([*ranked, *recommended(others), *masking, *others]), None)


def shown_decision(comparison: Comparison) -> Decision:
    """The decision to compare methods with: the chosen one, else fitted thresholds, else the default."""
    if comparison.chosen is not None:
        return comparison.chosen.decision
    return _tuned(comparison) or "default"


def recommended(methods: Iterable[str]) -> list[str]:
    """The methods that are the recommended one, with any λ; one without a named λ comes first.

    >>> recommended(["bce", "plm", "plm:rate=0.003,adapt=prevalence", "plm:adapt=prevalence+focal"])
    ['plm:rate=0.003,adapt=prevalence']
    """
    found = []
    for name in methods:
        if _masks(name) and _unmasked(name) == "bce":
            found += [name] if str(parse(name).with_options("plm", rate=None)) == RECOMMENDED else []
    return sorted(found, key=lambda name: name != RECOMMENDED)


def points(value: float, *, sign: bool = True, digits: int = 1) -> str:
    """A value from 0 to 1 in percentage points.

    >>> points(0.0312), points(-0.00004), points(0.648, sign=False)
    ('+3.1', '0.0', '64.8')
    """
    rounded = round(100.0 * value, digits)
    shown = "+" if sign and rounded > 0 else "−" if rounded < 0 else ""
    return f"{shown}{abs(rounded):.{digits}f}"


def interval_text(low: float, high: float, *, sign: bool = True) -> str:
    """The ends of an interval in percentage points.

    >>> interval_text(-0.004, 0.044)
    '−0.4 to +4.4'
    """
    return f"{points(low, sign=sign)} to {points(high, sign=sign)}"


def decision_words(decision: Decision) -> str:
    """A phrase for a decision.

    >>> [decision_words(name) for name in ("tuned thresholds", "recall=0.8", "top=3")]
    ['with tuned thresholds', 'with thresholds for recall=0.8', 'with top=3 labels']
    """
    words = {
        "default": "at the default threshold",
        "tuned thresholds": "with tuned thresholds",
        "prior shift": "with the prior shift",
    }
    if decision in words:
        return words[decision]
    return f"with {decision} labels" if decision.startswith("top=") else f"with thresholds for {decision}"


def _choice(comparison: Comparison) -> tuple[Outcome, str]:
    """The outcome, and a sentence with the method to use and its test result."""
    assert comparison.chosen is not None
    method, decision, base = comparison.chosen.method, comparison.chosen.decision, comparison.baseline
    metric = primary(single_label=comparison.single_label)[0]
    row = comparison.row(method, metric, decision)
    with_decision = (
        "" if comparison.single_label and decision == "default" else f" {decision_words(decision)}"
    )
    reached = "" if row is None else f": {_name(metric)} {points(row.mean, sign=False)}"
    use = f"Use `{method}`{with_decision}{reached}"
    if method == base:
        if len(comparison.methods) == 1:
            return "baseline", f"{use} on the test set."
        return "baseline", f"{use} on the test set. No other method scored higher on validation data."
    found = comparison.like_for_like(method, metric, decision)
    if found is None:
        return "nothing", f"{use} on the test set."
    same = "" if comparison.single_label else " decided the same way"
    if _effect(found) > 0:
        over = "over" if describe(metric).higher_is_better else "against"
        return "helped", f"{use}, {_points(found, f'{over} {base}{same}')}."
    if _effect(found) == 0:
        return "unclear", f"{use}, no clear difference to {base}{same} ({_points(found)})."
    return "harmed", (
        f"Validation scores choose `{method}`{with_decision}, but the test set disagrees{reached}, "
        f"{_points(found, f'against {base}{same}')}. Get more validation data, or stay with {base} "
        f"(`--run {base}`)."
    )


def _no_choice(comparison: Comparison) -> tuple[Outcome, str]:
    """The outcome, and sentences that say why nothing was chosen and how the shown method compares."""
    if comparison.validation is None:
        start = "This record has no validation scores, so no method is chosen."
    else:
        start = "Add `--validation 0.1`: without validation data no method can be chosen."
    lead, decision = lead_method(comparison), shown_decision(comparison)
    metric = primary(single_label=comparison.single_label)[0]
    found = None if lead is None else comparison.like_for_like(lead, metric, decision)
    row = None if lead is None else comparison.row(lead, metric, decision)
    if found is None or row is None:
        return "nothing", start
    how = "" if comparison.single_label else f"{decision_words(decision).capitalize()}, "
    clear = {1: "", 0: ", no clear difference", -1: ", which is worse"}[_effect(found)]
    reached = f"{how}{lead} reaches {_name(metric)} {points(row.mean, sign=False)} on the test set"
    finding = _points(found, f"against {comparison.baseline}")
    return _OUTCOMES[_effect(found)], f"{start} {reached}, {finding}{clear}."


def _rare_classes(comparison: Comparison, lead: str, decision: Decision) -> list[str]:
    metric = primary(single_label=comparison.single_label)[1]
    found, row = comparison.like_for_like(lead, metric, decision), comparison.row(lead, metric, decision)
    if found is None or row is None or _is_baseline_chosen(comparison):
        return []
    clear = (
        "" if _effect(found) > 0 else ", no clear difference" if _effect(found) == 0 else ", which is worse"
    )
    reached = f"{_name(metric)} {points(row.mean, sign=False)} with {lead}, {_points(found)}{clear}"
    return [f"Over the rarest third of the classes: {reached}."]


def _from_thresholds(comparison: Comparison) -> list[str]:
    """The gain of the baseline from only tuned thresholds."""
    base = comparison.baseline
    found = comparison.difference(base, "f1", decision="tuned thresholds")
    rows = [comparison.row(base, "f1", decision) for decision in ("default", "tuned thresholds")]
    if found is None or rows[0] is None or rows[1] is None:
        return []
    before, after = (points(row.mean, sign=False) for row in rows if row is not None)
    moved = {1: "lift", 0: "do not clearly change", -1: "lower"}[_effect(found)]
    course = f"{base} ({_points(found)})" if _effect(found) == 0 else f"{base} from {before} to {after}"
    return [f"Thresholds alone {moved} {course}{'' if _effect(found) == 0 else f' ({_points(found)})'}."]


def _from_learner(comparison: Comparison, lead: str, decision: Decision) -> list[str]:
    """The gain of the shown method's loss or learner without masking."""
    plain, metric = _unmasked(lead), primary(single_label=comparison.single_label)[0]
    found = comparison.like_for_like(plain, metric, decision)
    if plain in (lead, comparison.baseline) or found is None:
        return []
    word = find_words().get(plain.partition(":")[0])
    kind = "loss" if word is None else word.kind  # a learner, if it is not a loss
    how = {1: "gives", 0: "gives no clear gain:", -1: "loses"}[_effect(found)]
    return [f"The {kind} {plain} without masking {how} {_points(found, f'against {comparison.baseline}')}."]


def _from_masking(comparison: Comparison, lead: str, decision: Decision) -> list[str]:
    """The gain from masking: a method against the same method without masking."""
    metric = primary(single_label=comparison.single_label)[0]
    masked = lead if _masks(lead) else _best_masked(comparison, decision)
    if masked is None:
        return []
    plain = _unmasked(masked)
    if plain == comparison.baseline:
        found = comparison.like_for_like(masked, metric, decision)
        if found is None:
            return []
        effect = {1: "helped", 0: "made no clear difference", -1: "did harm"}[_effect(found)]
        at_default = comparison.difference(masked, metric)
        if decision != "default" and at_default and _effect(at_default) > 0 >= _effect(found):
            return [
                f"Masking helped only at the default threshold: there, {masked} is "
                f"{_points(at_default, f'over {plain}')}; {decision_words(decision)} it is {_points(found)}."
            ]
        if masked == lead and not _is_baseline_chosen(comparison):  # the first sentence has the difference
            return [f"Masking {effect}: nothing else differs from {plain}."] if _effect(found) else []
        return [f"Masking {effect}: {masked} is {_points(found, f'against {plain}')}."]
    rows = [comparison.row(name, metric, decision) for name in (masked, plain)]
    if rows[0] is None or rows[1] is None:
        return []
    change = points(rows[0].mean - rows[1].mean)
    return [f"Masking adds {change} to {plain} ({masked}; a difference of means, without an interval)."]


def _best_masked(comparison: Comparison, decision: Decision) -> str | None:
    """The masking method with the best validation score; the first one if there are no scores."""
    scores = {each.method: each.mean for each in comparison.validation or () if each.decision == decision}
    masked = [each.name for each in comparison.methods[1:] if _masks(each.name)]
    sign = -1 if comparison.single_label else 1
    return max(masked, key=lambda name: sign * scores.get(name, 0.0), default=None)


def _ranking(comparison: Comparison, lead: str) -> list[str]:
    found = comparison.difference(lead, "ap")
    if found is None or _effect(found) == 0:
        return []
    better = "better" if _effect(found) > 0 else "worse"
    return [f"{lead} ranks {better}, whatever the threshold: mAP {_points(found)}."]


def _untrained(comparison: Comparison, lead: str) -> list[str]:
    rows = [comparison.row(method, "f1") for method in (comparison.baseline, lead)]
    if any(row is None or row.mean > 0 for row in rows):
        return []
    return ["At the default threshold neither gets a single label right: train for more epochs."]


def _few_positives(comparison: Comparison) -> list[str]:
    if comparison.validation_positives is None or comparison.single_label:
        return []
    sentence = few_positives(comparison.validation_positives)
    return [] if sentence is None else [sentence]


def _untested(comparison: Comparison) -> list[str]:
    """A sentence on the number of classes without a test sample."""
    absent = {index for index, number in enumerate(comparison.test_positives) if number == 0}
    if not absent:
        return []
    groups = class_groups(comparison.train_positives)
    tail = set(groups["tail"].tolist()) if "tail" in groups else set()
    meaning = "they are left out" if comparison.single_label else "their F1 is 0 with every method"
    among = f" ({len(absent & tail)} of the {len(tail)} rarest)" if absent & tail else ""
    return [f"{len(absent)} of {len(comparison.classes)} classes{among} have no test sample: {meaning}."]


def _caution(difference: Difference) -> list[str]:
    if difference.n == 1:
        return ["Only one seed was trained, so the intervals leave out chance in training."]
    if difference.n == 2:
        return ["Two seeds say little about chance in training: train three or more."]
    return []


def _is_baseline_chosen(comparison: Comparison) -> bool:
    return comparison.chosen is not None and comparison.chosen.method == comparison.baseline


def _tuned(comparison: Comparison) -> Decision | None:
    """The decision of the rows with fitted thresholds, if the baseline has such a row."""
    own = [decision for method, decision in comparison.row_keys if method == comparison.baseline]
    return next((name for name in own if name not in ("default", "prior shift")), None)


def _points(difference: Difference, against: str = "") -> str:
    """A difference with its interval.

    >>> _points(Difference("plm", "default", "default", "f1", 0.042, 0.019, 0.064, 3), "over bce")
    '+4.2 over bce [+1.9, +6.4]'
    """
    ends = f"[{points(difference.low)}, {points(difference.high)}]"
    return " ".join(part for part in (points(difference.mean), against, ends) if part)


def _effect(difference: Difference) -> int:
    """1 if it is clearly better, −1 if clearly worse, else 0. A difference shown as 0.0 counts as 0.

    >>> _effect(Difference("plm", "default", "default", "f1", 0.0003, 0.0001, 0.0004, 3))
    0
    """
    return difference.effect if round(100.0 * difference.mean, 1) else 0


def _name(metric: str) -> str:
    label = describe(metric).label.partition(",")[0]
    return label if label == "F1" else label.lower()


def _parts(method: str) -> Sequence[str]:
    return method.split("+")


def _masks(method: str) -> bool:
    return any(part.partition(":")[0] == "plm" for part in _parts(method))


def _unmasked(method: str) -> str:
    """The method without masking; its loss is `bce` if it names none.

    >>> _unmasked("plm:rate=0.05"), _unmasked("plm+linear"), _unmasked("asl")
    ('bce', 'linear', 'asl')
    """
    return "+".join(part for part in _parts(method) if part.partition(":")[0] != "plm") or "bce"
