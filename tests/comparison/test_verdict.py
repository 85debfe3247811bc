"""The verdict on constructed results: what is recommended, against what, and where the gain comes from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import pytest

from tailmask.comparison.comparison_result import (
    Choice,
    Comparison,
    Difference,
    MethodRuns,
    Row,
    ValidationScore,
)
from tailmask.comparison.verdict_sentences import lead_method, shown_decision, verdict
from tailmask.methods import RECOMMENDED
from tailmask.report.comparison_text import footnote

Ends = tuple[float, float, float]  # mean, low, high of a difference, in points
TUNED = "tuned thresholds"
UNDEFINED = (math.nan, math.nan, math.nan)


def constructed(
    plain: Mapping[str, Mapping[str, Ends]],
    tuned: Mapping[str, Mapping[str, Ends]] | None = None,
    *,
    chosen: tuple[str, str] | None = ("plm", TUNED),
    base: float = 30.0,
    tuned_base: float = 50.0,
    from_thresholds: Ends = (20.0, 18.0, 22.0),
    seeds: int = 3,
    single_label: bool = False,
    test_positives: tuple[int, ...] = (5,),
    validation: tuple[ValidationScore, ...] | None = (),
) -> Comparison:
    """Methods against `bce`, at the default threshold and with tuned ones, with these differences."""
    rows, found = [], []
    for decision, values, level in (("default", plain, base), (TUNED, tuned or {}, tuned_base)):
        for metric in dict.fromkeys(metric for by_metric in values.values() for metric in by_metric):
            rows.append(Row("bce", decision, metric, level / 100, 0.01, seeds))
        for method, by_metric in values.items():
            for metric, ends in by_metric.items():
                mean, low, high = (value / 100 for value in ends)
                rows.append(Row(method, decision, metric, level / 100 + mean, 0.01, seeds))
                found.append(Difference(method, decision, decision, metric, mean, low, high, seeds))
    if tuned:
        mean, low, high = (value / 100 for value in from_thresholds)
        found.append(Difference("bce", TUNED, "default", "f1", mean, low, high, seeds))
    names = list(dict.fromkeys(["bce", *plain, *(tuned or {})]))
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
        validation=validation,
        chosen=None if chosen is None else Choice(*chosen, seed=0, run="x_seed=0"),
    )


def test_a_win_leads_with_what_to_use() -> None:
    result = verdict(
        constructed(
            {"plm": {"f1": (9.0, 7.0, 11.0), "ap": (1.0, 0.2, 1.8)}},
            {"plm": {"f1": (4.2, 1.9, 6.4), "f1_tail": (6.4, 2.0, 10.8)}},
        )
    )
    assert result.outcome == "helped"
    assert result.sentences[0] == (
        "Use `plm` with tuned thresholds: F1 54.2, +4.2 over bce decided the same way [+1.9, +6.4]."
    )
    assert "Thresholds alone lift bce from 30.0 to 50.0 (+20.0 [+18.0, +22.0])." in result.sentences
    assert "Masking helped: nothing else differs from bce." in result.sentences
    assert "plm ranks better, whatever the threshold: mAP +1.0 [+0.2, +1.8]." in result.sentences
    assert "Over the rarest third of the classes: F1 56.4 with plm, +6.4 [+2.0, +10.8]." in result.details
    assert len(result.sentences) == 4


def test_a_tie_is_no_help() -> None:
    result = verdict(constructed({"plm": {"f1": (0, -1, 1)}}, {"plm": {"f1": (0.2, -0.9, 1.3)}}))
    assert result.outcome == "unclear"
    assert result.sentences[0] == (
        "Use `plm` with tuned thresholds: F1 50.2, no clear difference to bce decided the same way "
        "(+0.2 [−0.9, +1.3])."
    )
    assert "helped" not in result.text


def test_a_choice_that_the_test_set_does_not_bear_out_is_said() -> None:
    result = verdict(constructed({"plm": {"f1": (0, -1, 1)}}, {"plm": {"f1": (-2.0, -3.0, -1.0)}}))
    assert result.outcome == "harmed"
    assert "F1 48.0, −2.0 against bce decided the same way [−3.0, −1.0]" in result.sentences[0]
    assert "Use " not in result.sentences[0]
    assert "stay with bce (`--run bce`)" in result.sentences[0]
    assert "Masking did harm" in result.text


def test_a_win_at_the_default_threshold_alone_is_the_thresholds() -> None:
    comparison = constructed(
        {"plm": {"f1": (9.4, 8.0, 10.8)}},
        {"plm": {"f1": (-0.9, -2.3, 0.4)}},
        chosen=("bce", TUNED),
    )
    result = verdict(comparison)
    assert result.outcome == "baseline"
    assert result.sentences[0] == (
        "Use `bce` with tuned thresholds: F1 50.0 on the test set. "
        "No other method scored higher on validation data."
    )
    assert (
        "Masking helped only at the default threshold: there, plm is +9.4 over bce [+8.0, +10.8]; "
        "with tuned thresholds it is −0.9 [−2.3, +0.4]."
    ) in result.sentences


def test_a_win_in_ranking_alone_is_said_as_such() -> None:
    result = verdict(
        constructed(
            {"plm": {"f1": (0, -1, 1), "ap": (2.0, 1.0, 3.0)}},
            {"plm": {"f1": (0.1, -0.5, 0.7)}},
            chosen=("bce", TUNED),
        )
    )
    assert result.outcome == "baseline"
    assert "plm ranks better, whatever the threshold: mAP +2.0 [+1.0, +3.0]." in result.sentences
    assert "helped" not in result.text


def test_a_difference_that_is_shown_as_zero_is_no_finding() -> None:
    tiny = (0.03, 0.01, 0.04)
    comparison = constructed({"plm": {"f1": tiny, "ap": tiny}}, {"plm": {"f1": tiny}})
    result = verdict(comparison)
    assert result.outcome == "unclear"
    assert "no clear difference" in result.sentences[0]
    assert "ranks" not in result.text
    assert "Masking" not in result.text


def test_another_method_wins() -> None:
    """Names that the grammar does not know yet are methods like any other."""
    plain = {"ensemble": {"f1": (1, 0, 2)}, "plm": {"f1": (1, 0, 2)}}
    tuned = {
        "ensemble": {"f1": (4.2, 1.9, 6.4)},
        "plm": {"f1": (2.0, 1.0, 3.0)},
        "linear": {"f1": (-1, -3, 1)},
    }
    result = verdict(constructed(plain, tuned, chosen=("ensemble", TUNED)))
    assert result.sentences[0].startswith("Use `ensemble` with tuned thresholds: F1 54.2, +4.2 over bce")
    assert "Masking helped: plm is +2.0 against bce [+1.0, +3.0]." in result.sentences


def test_learner_and_masking_are_told_apart() -> None:
    tuned = {"plm+linear": {"f1": (5.0, 3.0, 7.0)}, "linear": {"f1": (4.0, 2.0, 6.0)}}
    result = verdict(constructed({}, tuned, chosen=("plm+linear", TUNED)))
    assert "The learner linear without masking gives +4.0 against bce [+2.0, +6.0]." in result.sentences
    assert "Masking adds +1.0 to linear" in result.text
    tuned = {"plm+asl": {"f1": (5.0, 3.0, 7.0)}, "asl": {"f1": (1.0, -2.0, 4.0)}}
    result = verdict(constructed({}, tuned, chosen=("plm+asl", TUNED)))
    assert "The loss asl without masking gives no clear gain: +1.0 against bce [−2.0, +4.0]" in result.text


def test_without_validation_nothing_is_chosen() -> None:
    comparison = constructed({"plm": {"f1": (5.0, 3.0, 7.0)}}, chosen=None)
    result = verdict(comparison)
    assert result.sentences[0] == (
        "Add `--validation 0.1`: without validation data no method can be chosen. "
        "At the default threshold, plm reaches F1 35.0 on the test set, +5.0 against bce [+3.0, +7.0]."
    )
    assert "Use " not in result.text
    assert shown_decision(comparison) == "default"
    earlier = dataclasses.replace(comparison, validation=None)
    assert verdict(earlier).text.startswith("This record has no validation scores, so no method is chosen.")


def test_errors_are_better_when_they_fall() -> None:
    comparison = constructed(
        {
            "plm": {"error_balanced": (-4.6, -6.0, -3.2), "error_tail": (-10.0, -12.0, -8.0)},
            "focal": {"error_balanced": (1.0, 0.5, 1.5)},
        },
        single_label=True,
        chosen=("plm", "default"),
    )
    result = verdict(comparison)
    assert result.outcome == "helped"
    assert result.sentences[0] == "Use `plm`: error 25.4, −4.6 against bce [−6.0, −3.2]."
    assert "threshold" not in result.text


def test_one_and_two_seeds_are_said() -> None:
    values = {"plm": {"f1": (2, 1, 3)}}
    for seeds, words in ((1, "one seed"), (2, "Two seeds")):
        result = verdict(constructed(values, values, seeds=seeds))
        assert any(words in sentence for sentence in result.sentences)


@pytest.mark.parametrize(
    ("decision", "words"),
    [("precision=0.9", "with thresholds for precision=0.9: F1"), ("top=3", "with top=3 labels: F1")],
)
def test_another_rule_is_named(decision: str, words: str) -> None:
    comparison = constructed({"plm": {"f1": (2, 1, 3)}}, {"plm": {"f1": (2, 1, 3)}}, chosen=("plm", decision))
    rows = [dataclasses.replace(row, decision=decision) for row in comparison.rows if row.decision == TUNED]
    text = verdict(dataclasses.replace(comparison, rows=(*comparison.rows, *rows))).text
    assert words in text


def test_classes_that_cannot_be_judged_are_said() -> None:
    values = {"plm": {"f1": (2.0, 1.0, 3.0), "f1_tail": (0.0, 0.0, 0.0)}}
    comparison = constructed(values, values, test_positives=(0, 4, 3, 0, 8, 0))
    assert (
        "3 of 6 classes (1 of the 2 rarest) have no test sample: their F1 is 0 with every method."
    ) in verdict(comparison).details
    few = dataclasses.replace(comparison, validation_positives=(9, 4, 0, 20, 30, 5))
    assert any("2 of 6 classes have fewer than 5" in sentence for sentence in verdict(few).details)
    assert not any("no test sample" in sentence for sentence in verdict(constructed(values, values)).details)


def test_undefined_numbers_are_not_spoken_of() -> None:
    values = {"plm": {"f1": (2.0, 1.0, 3.0), "f1_tail": UNDEFINED, "ap": UNDEFINED}}
    result = verdict(constructed(values, values))
    assert not any("nan" in sentence for sentence in (*result.sentences, *result.details))
    assert not any("rarest third" in sentence for sentence in result.details)


def test_nothing_right_is_not_a_finding() -> None:
    nothing = {"plm": {"f1": (0.0, 0.0, 0.0)}}
    result = verdict(constructed(nothing, base=0.0, chosen=("plm", "default")))
    assert result.outcome == "unclear"
    assert "neither gets a single label right: train for more epochs." in result.text


def test_nothing_to_compare() -> None:
    comparison = constructed({"plm": {"f1": (2, 1, 3)}}, {"plm": {"f1": (2, 1, 3)}}, chosen=("bce", TUNED))
    alone = dataclasses.replace(comparison, methods=comparison.methods[:1])
    assert alone.verdict == (
        "Use `bce` with tuned thresholds: F1 50.0 on the test set. "
        "Only bce was run: there is nothing to compare it with."
    )
    apart = dataclasses.replace(comparison, differences=())
    assert "no seed in common" in apart.verdict
    assert "train both with the same seeds" in apart.verdict


def test_shows_the_chosen_method_else_the_recommended_else_one_that_masks() -> None:
    values = {"focal": {"f1": (0.0, -1.0, 1.0)}, "plm": {"f1": (1.0, 0.5, 1.5)}}
    assert lead_method(constructed(values, chosen=("focal", "default"))) == "focal"
    assert lead_method(constructed(values, chosen=("bce", "default"))) == "plm"
    tuned = "plm:rate=0.003,adapt=prevalence"
    values[tuned] = {"f1": (2.0, 1.0, 3.0)}
    found = constructed(values, chosen=None)
    assert lead_method(found) == tuned
    assert f" {tuned} is the form of PLM that is recommended" in footnote(found)
    assert lead_method(constructed(values | {RECOMMENDED: {"f1": (2, 1, 3)}}, chosen=None)) == RECOMMENDED
    assert RECOMMENDED not in footnote(constructed({"plm:rate=0.003": {"f1": (2, 1, 3)}}))


def test_undefined_numbers_become_null_in_json_and_come_back() -> None:
    score = ValidationScore("bce", "default", 0.5, 3)
    comparison = dataclasses.replace(
        constructed({"plm": {"f1": (0, -1, 1)}}, chosen=("plm", "default"), validation=(score,)),
        class_values={"bce": {"ap": (math.nan, 0.5)}},
    )
    value = comparison.to_json()
    assert value["class_values"] == {"bce": {"ap": [None, 0.5]}}
    assert value["chosen"] == {"method": "plm", "decision": "default", "seed": 0, "run": "x_seed=0"}
    assert Comparison.from_json(value).to_json() == value
