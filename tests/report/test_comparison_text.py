"""A comparison as CSV, Markdown and in the terminal; names with a meaning there are shown as they are."""

from __future__ import annotations

import csv
import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from synthetic_runs import draw_logits, draw_targets, write_run
from tailmask.comparison import Comparison, compare_runs
from tailmask.comparison.measures import describe, headline, ordered
from tailmask.comparison.verdict_sentences import points
from tailmask.report.comparison_terminal import print_comparison
from tailmask.report.comparison_text import CSV_COLUMNS, MARKDOWN_MARK, footnote, to_csv, to_markdown

HOSTILE = ("<script>alert(1)</script>", "a|b", "*bold*", "\x1b[2J[red]x[/red]")


def compare(folder: Path, methods: tuple[str, ...]) -> Comparison:
    targets = draw_targets(200, 4)
    validation = draw_targets(100, 4, seed=3)
    runs = [
        write_run(
            folder / method,
            method,
            0,
            logits=draw_logits(targets, seed=len(method), bias=-0.3 * index),
            targets=targets,
            validation=(draw_logits(validation, seed=8), validation),
            classes=HOSTILE,
            fields=["evaluation.rarest=[2]", "evaluation.frequent=[2]"],
        )
        for index, method in enumerate(methods)
    ]
    return compare_runs(runs, resamples=100)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compare(tmp_path_factory.mktemp("runs"), ("bce", "plm"))


def printed(comparison: Comparison, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    print_comparison(comparison, console)
    return console.file.getvalue()


def test_csv_has_every_value(comparison: Comparison) -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv(comparison))))
    assert tuple(lines[0]) == CSV_COLUMNS
    (line,) = (
        x
        for x in lines
        if (x["method"], x["decision"], x["metric"]) == ("plm", "tuned thresholds", "f1")
        and x["reference"] == "bce + tuned thresholds"
    )
    difference = comparison.difference("plm", "f1", decision="tuned thresholds", reference="tuned thresholds")
    assert difference is not None
    assert float(line["difference"]) == difference.mean
    assert float(line["low"]) == difference.low
    assert line["std"] == ""  # one seed
    compared = {(x["method"], x["decision"], x["metric"]) for x in lines}
    assert len(compared) == len(comparison.rows)


def test_markdown_has_the_verdict_the_tables_and_no_live_names(comparison: Comparison) -> None:
    text = to_markdown(comparison)
    assert text.startswith(MARKDOWN_MARK)
    assert comparison.verdict.split(":")[0] in text
    assert "| bce + tuned thresholds |" in text
    assert "Recall, 2 rarest" in text
    assert "## Difference to bce" in text
    assert "<script>" not in text
    for name in ("&lt;script&gt;alert(1)&lt;/script&gt;", "a\\|b", "\\*bold\\*", "\\[2J\\[red\\]x\\[/red\\]"):
        assert f"{name} |" in text
    rows = [line for line in text.splitlines() if line.startswith("| Precision")]
    assert rows[0].count("|") - rows[0].count("\\|") == 3


def test_methods_with_tuned_thresholds_are_held_against_a_baseline_that_has_them_too(
    comparison: Comparison,
) -> None:
    both = comparison.difference("plm", "f1", decision="tuned thresholds", reference="tuned thresholds")
    assert both is not None
    shown = f"{points(both.mean)} [{points(both.low)}, {points(both.high)}]"
    assert comparison.chosen is not None
    plain = dataclasses.replace(comparison, chosen=dataclasses.replace(comparison.chosen, decision="default"))
    lines = [line.strip() for line in printed(plain, width=200).splitlines()]
    (own,) = (line for line in lines if line.startswith("plm + tuned thresholds"))
    (base,) = (line for line in lines if line.startswith("bce + tuned thresholds"))
    assert own.endswith(shown)
    assert not base.endswith("]"), "the baseline has no difference to itself"
    text = to_markdown(comparison)
    tuned = text[text.index("## Difference to bce, both with tuned thresholds") :]
    assert f"{points(both.mean, digits=2)} [" in next(line for line in tuned.splitlines() if "| F1 |" in line)


def test_terminal_shows_names_as_they_are(comparison: Comparison) -> None:
    text = printed(comparison, width=200)
    assert "\x1b[2J" not in text
    assert "�[2J[red]x[/red] (20 training samples)" in text
    assert "− bce, 95 %" in text
    assert "The same outputs with other decisions" in text
    assert text.rstrip().endswith("chance in training."), "users read the end first"


def test_terminal_with_many_methods_has_a_line_for_each(tmp_path: Path) -> None:
    comparison = compare(tmp_path, ("bce", "plm", "focal", "asl", "db"))
    lines = printed(comparison, width=120).splitlines()
    for name in ("bce", "plm", "focal", "asl", "db"):
        assert sum(line.split()[:1] == [name] and "+ tuned" not in line for line in lines) >= 1
    assert max(map(len, lines)) <= 400


def test_tables_say_where_lower_is_better(comparison: Comparison) -> None:
    for text in (to_markdown(comparison), printed(comparison)):
        assert "Ranking loss ↓" in text
        assert "↓: lower is better." in " ".join(text.split())
        assert "F1 ↓" not in text
    upward = dataclasses.replace(comparison, rows=tuple(x for x in comparison.rows if x.metric == "f1"))
    assert "↓" not in footnote(upward)


def test_measures_have_names_an_order_and_a_direction() -> None:
    assert describe("precision_frequent_5").label == "Precision, 5 most frequent"
    assert describe("error_rarest_5").higher_is_better is False
    assert describe("error_balanced").label == "Error, mean over classes"
    assert describe("ece_top").family == "calibration"
    names = ["ece", "f1_frequent_5", "f1_head", "f1_rarest_10", "f1_rarest_3", "f1_tail", "ndcg_at_1", "f1"]
    assert ordered(names) == [
        "f1",
        "f1_tail",
        "f1_rarest_3",
        "f1_rarest_10",
        "f1_head",
        "f1_frequent_5",
        "ndcg_at_1",
        "ece",
    ]
    assert headline(["error", "error_balanced", "error_rarest_5", "f1", "ap"], single_label=True) == [
        "error_balanced",
        "error_rarest_5",
        "error",
        "ap",
    ]
