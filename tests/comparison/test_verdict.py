"""The verdict on constructed results: wins, ties, losses, and wins that thresholds would give as well."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import pytest

from tailmask.comparison.comparison_result import Comparison, Difference, MethodRuns, Row
from tailmask.comparison.verdict_sentences import lead_method, verdict
from tailmask.methods import RECOMMENDED
from tailmask.report.comparison_text import footnote

Ends = tuple[float, float, float]  # mean, low, high of a difference, in points


def constructed(
    differences: Mapping[str, Ends],
    *,
    tuned: Ends | None = None,
    tuned_tail: Ends | None = None,
    tuned_baseline: float = 60.0,
    against_tuned: Ends | None = None,
    seeds: int = 3,
    others: Mapping[str, Ends] | None = None,
    single_label: bool = False,
    base: float = 60.0,
    test_positives: tuple[int, ...] = (5,),
) -> Comparison:
    """`plm` against `bce` at `base` %, with these differences, and with tuned thresholds for both."""
    rows, found = [], []

    def add(method: str, metric: str, ends: Ends, *, base: float = 60.0, decision: str = "default") -> None:
        mean, low, high = (value / 100 for value in ends)
        rows.append(Row("bce", decision, metric, base / 100, 0.01, seeds))
        rows.append(Row(method, decision, metric, base / 100 + mean, 0.01, seeds))
        found.append(Difference(method, decision, decision, metric, mean, low, high, seeds))

    for metric, ends in differences.items():
        add("plm", metric, ends, base=base)
    if tuned is not None:
        add("plm", "f1", tuned, base=tuned_baseline, decision="tuned thresholds")
    if tuned_tail is not None:
        add("plm", "f1_tail", tuned_tail, decision="tuned thresholds")
    if against_tuned is not None:
        mean, low, high = (value / 100 for value in against_tuned)
        found.append(Difference("plm", "default", "tuned thresholds", "f1", mean, low, high, seeds))
    for method, ends in (others or {}).items():
        add(method, "error_balanced" if single_label else "f1", ends)
    names = ["bce", "plm", *(others or {})]
    return Comparison(
        data="mine",
        single_label=single_label,
        budget=1.0,
        num_test=100,
        classes=tuple(f"class {index}" for index in range(len(test_positives))),
        train_positives=tuple(range(5, 5 + len(test_positives))),  # the first are the rarest
        test_positives=test_positives,
        methods=tuple(MethodRuns(name, name, tuple(range(seeds))) for name in names),
        rows=tuple(rows),
        differences=tuple(found),
        class_values={},
        class_gains=(),
        resamples=100,
        seed=0,
    )


def test_win_that_thresholds_do_not_give() -> None:
    result = verdict(
        constructed(
            {"f1": (2.6, 1.1, 4.1), "f1_tail": (6.4, 2.0, 10.8), "ap": (1.0, 0.2, 1.8)}, tuned=(1.5, 0.5, 2.5)
        )
    )
    assert result.outcome == "helped"
    assert result.sentences[0] == (
        "plm helped: F1 over all classes rose by 2.6 points from 60.0 to 62.6 (95 % interval +1.1 to +4.1), "
        "and F1 over the rarest third of the classes rose by 6.4 points from 60.0 to 66.4 "
        "(95 % interval +2.0 to +10.8)."
    )
    assert "still ahead in F1 (+1.5 points" in result.text
    assert "Average precision, which no threshold changes, rose by 1.0 points" in result.text
    assert result.text.endswith("over test samples and 3 seeds.")


def test_win_at_one_half_but_not_against_tuned_thresholds() -> None:
    result = verdict(
        constructed(
            {"f1": (5.0, 3.0, 7.0), "ap": (0.1, -0.5, 0.7)}, tuned=(0.1, -0.8, 1.0), tuned_baseline=66.0
        )
    )
    assert result.outcome == "helped"
    assert (
        "With thresholds tuned on validation for both, plm is not clearly ahead in F1 (+0.1 points, "
        "95 % interval −0.8 to +1.0). bce with tuned thresholds reaches 66.0, plm without them 65.0: "
        "thresholds alone may do as much here."
    ) in result.text
    assert "did not clearly change (+0.1 points" in result.text


@pytest.mark.parametrize(
    ("against", "lesson"),
    [
        ((-1.0, -2.0, 0.5), ": thresholds alone may do as much here."),
        ((-6.0, -7.0, -5.0), ": thresholds alone do more here."),
        ((2.0, 1.0, 3.0), ": plm alone does more than thresholds alone."),
    ],
)
def test_win_is_held_against_what_thresholds_do_for_the_baseline(against: Ends, lesson: str) -> None:
    result = verdict(constructed({"f1": (5.0, 3.0, 7.0)}, tuned=(0.1, -0.8, 1.0), against_tuned=against))
    assert result.sentences[2].endswith(lesson)


def test_win_that_tuned_thresholds_turn_around() -> None:
    result = verdict(constructed({"f1": (5.0, 3.0, 7.0)}, tuned=(-2.0, -3.0, -1.0), tuned_baseline=68.0))
    assert "for both, plm is behind in F1 (−2.0 points" in result.text


def test_tuned_thresholds_are_also_judged_over_the_rarest_classes() -> None:
    result = verdict(
        constructed({"f1": (9.4, 8.0, 10.8)}, tuned=(-0.9, -2.3, 0.4), tuned_tail=(-3.8, -7.1, -0.4))
    )
    assert (
        "plm is not clearly ahead in F1 (−0.9 points, 95 % interval −2.3 to +0.4), and behind over the "
        "rarest third of the classes (−3.8 points, 95 % interval −7.1 to −0.4)."
    ) in result.text


def test_win_without_validation_says_what_is_not_known() -> None:
    result = verdict(constructed({"f1": (5.0, 3.0, 7.0)}))
    assert "Whether thresholds tuned on validation would do as much for bce was not measured." in result.text


def test_tie() -> None:
    result = verdict(
        constructed({"f1": (0.2, -0.9, 1.3), "f1_tail": (1.0, -2.0, 4.0)}, tuned=(0.0, -1.0, 1.0))
    )
    assert result.outcome == "unclear"
    assert result.sentences[0].startswith(
        "plm made no clear difference: F1 over all classes did not clearly change (+0.2 points, "
        "95 % interval −0.9 to +1.3), and F1 over the rarest third"
    )
    assert "bce with tuned thresholds reaches 60.0, plm without them 60.2." in result.text
    assert "thresholds alone" not in result.text


def test_loss() -> None:
    result = verdict(constructed({"f1": (-6.7, -8.0, -5.0), "f1_tail": (-1.0, -3.0, 1.0)}))
    assert result.outcome == "harmed"
    assert result.sentences[0].startswith("plm did harm: F1 over all classes fell by 6.7 points from 60.0 to")
    assert "while F1 over the rarest third of the classes did not clearly change" in result.sentences[0]
    assert "helped" not in result.text


@pytest.mark.parametrize(
    ("whole", "tail", "outcome", "start"),
    [
        (
            (-2, -3, -1),
            (5, 2, 8),
            "mixed",
            "plm helped rare classes at the expense of the others: F1 over the",
        ),
        (
            (2, 1, 3),
            (-5, -8, -2),
            "mixed",
            "plm helped on the whole, but not where classes are rare: F1 over a",
        ),
        ((0, -1, 1), (5, 2, 8), "helped", "plm helped rare classes: F1 over the rarest third"),
        ((0, -1, 1), (-5, -8, -2), "harmed", "plm did harm to rare classes: F1 over the rarest third"),
        ((-2, -3, -1), (-5, -8, -2), "harmed", "plm did harm: F1 over all classes fell"),
    ],
)
def test_whole_and_tail_that_disagree(whole: Ends, tail: Ends, outcome: str, start: str) -> None:
    result = verdict(constructed({"f1": whole, "f1_tail": tail}))
    assert result.outcome == outcome
    assert result.sentences[0].startswith(start)


def test_errors_are_better_when_they_fall() -> None:
    comparison = constructed(
        {"error_balanced": (-4.6, -6.0, -3.2), "error_tail": (-10.0, -12.0, -8.0)},
        single_label=True,
        others={"focal": (1.0, 0.5, 1.5), "ldam+drw": (-5.0, -6.0, -4.0)},
    )
    result = verdict(comparison)
    assert result.outcome == "helped"
    assert "Error over all classes fell by 4.6 points from 60.0 to 55.4" in result.sentences[0]
    assert (
        "in Error against bce, ldam+drw (−5.0) is clearly better, focal (+1.0) is clearly worse."
        in result.text
    )


def test_classes_without_test_samples_are_said() -> None:
    differences = {"f1": (2.0, 1.0, 3.0), "f1_tail": (0.0, 0.0, 0.0)}
    result = verdict(constructed(differences, test_positives=(0, 4, 3, 0, 8, 0)))
    assert (
        "Without a test sample, and so with an F1 of 0 whatever the method: 3 of 6 classes, "
        "among them 1 of the 2 rarest."
    ) in result.sentences
    result = verdict(constructed(differences, test_positives=(3, 4, 3, 2, 8, 0)))
    assert result.sentences[1].endswith("whatever the method: 1 of 6 classes.")
    single = {"error_balanced": (-2.0, -3.0, -1.0)}
    result = verdict(constructed(single, test_positives=(0, 4, 3), single_label=True))
    assert result.sentences[1] == (
        "Without a test sample, and so left out: 1 of 3 classes, among them 1 of the 1 rarest."
    )
    assert "Without a test sample" not in verdict(constructed(differences)).text


def test_a_tail_without_test_samples_is_not_spoken_of() -> None:
    undefined = (math.nan, math.nan, math.nan)
    single = {"error_balanced": (-2.0, -3.0, -1.0), "error_tail": undefined}
    result = verdict(constructed(single, single_label=True, others={"focal": undefined}))
    assert result.outcome == "helped"
    assert "nan" not in result.text
    assert "rarest third" not in result.text
    several = {"f1": (2.0, 1.0, 3.0), "f1_tail": undefined, "ap": undefined}
    result = verdict(constructed(several, tuned=(1.0, 0.5, 1.5), tuned_tail=undefined))
    assert "nan" not in result.text


def test_nothing_right_is_not_a_finding() -> None:
    nothing = (0.0, 0.0, 0.0)
    result = verdict(constructed({"f1": nothing, "f1_tail": nothing}, base=0.0))
    assert result.outcome == "unclear"
    assert (
        "F1 over all classes is 0 with both, and F1 over the rarest third of the classes is 0 with both."
        in (result.sentences[0])
    )
    assert result.sentences[1] == (
        "At the plain threshold neither gets a single label right: train for more epochs."
    )


def test_means_of_other_seeds_are_not_told_as_the_course_of_a_difference() -> None:
    comparison = constructed({"f1": (5.0, 3.0, 7.0)})
    rows = tuple(dataclasses.replace(row, n=5) if row.method == "bce" else row for row in comparison.rows)
    result = verdict(dataclasses.replace(comparison, rows=rows))
    assert "F1 over all classes rose by 5.0 points (95 % interval" in result.sentences[0]


def test_one_and_two_seeds_are_said() -> None:
    assert "one seed only" in verdict(constructed({"f1": (2, 1, 3)}, seeds=1)).text
    assert "Two seeds say little" in verdict(constructed({"f1": (2, 1, 3)}, seeds=2)).text


def test_nothing_to_compare() -> None:
    comparison = constructed({"f1": (2, 1, 3)})
    alone = constructed_with(comparison, methods=comparison.methods[:1])
    assert alone.verdict == "Only bce was run: there is nothing to compare it with."
    apart = constructed_with(comparison, differences=())
    assert "no seed in common" in apart.verdict
    assert "train both with the same seeds" in apart.verdict


def constructed_with(comparison: Comparison, **changes: object) -> Comparison:
    import dataclasses

    return dataclasses.replace(comparison, **changes)


def test_leads_with_the_recommended_method_where_it_is_compared() -> None:
    found = constructed({"f1": (1.0, 0.5, 1.5)}, others={RECOMMENDED: (2.0, 1.0, 3.0)})
    assert lead_method(found) == RECOMMENDED
    assert verdict(found).text.startswith(f"{RECOMMENDED} helped")


@pytest.mark.parametrize("tuned", ["plm:rate=0.003,adapt=prevalence", "plm:adapt=prevalence,rate=0.003+bce"])
def test_leads_with_the_recommended_method_whatever_its_rate(tuned: str) -> None:
    found = constructed({"f1": (1.0, 0.5, 1.5)}, others={tuned: (2.0, 1.0, 3.0)})
    assert lead_method(found) == tuned
    assert f" {tuned} is the form of PLM that is recommended" in footnote(found)
    both = constructed({"f1": (1, 0, 2)}, others={tuned: (2, 1, 3), RECOMMENDED: (2, 1, 3)})
    assert lead_method(both) == RECOMMENDED
    assert RECOMMENDED not in footnote(constructed({"f1": (1, 0, 2)}, others={"plm:rate=0.003": (2, 1, 3)}))


def test_leads_with_the_first_method_that_masks() -> None:
    comparison = constructed({"f1": (0, -1, 1)}, others={"focal": (0, -1, 1)})
    reordered = constructed_with(comparison, methods=comparison.methods[::-1])
    assert [method.name for method in reordered.methods] == ["focal", "plm", "bce"]
    assert lead_method(reordered) == "plm"


def test_undefined_numbers_become_null_in_json_and_come_back() -> None:
    comparison = constructed_with(
        constructed({"f1": (0, -1, 1)}), class_values={"bce": {"ap": (math.nan, 0.5)}}
    )
    value = comparison.to_json()
    assert value["class_values"] == {"bce": {"ap": [None, 0.5]}}
    assert Comparison.from_json(value).to_json() == value
