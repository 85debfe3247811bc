"""Decision rules: thresholds against a search over all cuts, and honest expectations."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import precision_score, recall_score

from tailmask._util.messages import UserError
from tailmask.calibration import DecisionRule, cross_fitted_labels, expected_scores, fit_thresholds
from tailmask.runs.decision_file import (
    FEWEST_POSITIVES,
    fit_decisions,
    read_decisions,
    validation_folds,
    write_decisions,
)


def outputs(
    number: int, classes: int = 3, *, share: float = 0.3, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    targets = (torch.rand(number, classes, generator=generator) < share).to(torch.int8)
    logits = 2.0 * targets - 1.5 + torch.randn(number, classes, generator=generator)
    return logits.sigmoid(), targets


def every_cut(rule: DecisionRule, scores: np.ndarray, labels: np.ndarray) -> float:
    """The best merit over all thresholds, by scikit-learn's scores and plain counts."""
    best = -math.inf
    for cut in [*np.unique(scores), 2.0]:
        predicted = scores >= cut
        precision = precision_score(labels, predicted, zero_division=0)
        recall = recall_score(labels, predicted, zero_division=0)
        if rule.kind == "cost":
            merit = -(rule.value * (labels & ~predicted).sum() + (~labels & predicted).sum())
        elif rule.kind == "precision":
            merit = 1 + recall if precision >= rule.value - 1e-9 else precision
        else:
            merit = 1 + precision if recall >= rule.value - 1e-9 else recall
        best = max(best, merit)
    return best


@pytest.mark.parametrize("text", ["precision=0.8", "precision=1", "recall=0.7", "cost=5", "cost=0.2"])
def test_own_thresholds_are_the_best_of_all_cuts(text: str) -> None:
    rule = DecisionRule.parse(text)
    probabilities, targets = outputs(80)
    thresholds = rule.fit(probabilities, targets, shrinkage=0.0)
    for index in range(3):
        scores, labels = probabilities[:, index].numpy(), targets[:, index].numpy() == 1
        predicted = scores >= float(thresholds[index])
        hits, alarms = (labels & predicted).sum(), (~labels & predicted).sum()
        reached = float(rule.merit(hits, alarms, labels.sum()))
        assert reached == pytest.approx(every_cut(rule, scores, labels))


def test_a_precision_or_recall_that_is_reached_on_validation_stays_reached_with_shrinkage() -> None:
    probabilities, targets = outputs(300)
    for text, score in (("precision=0.8", precision_score), ("recall=0.8", recall_score)):
        labels = DecisionRule.parse(text).fit(probabilities, targets)
        predicted = (probabilities >= labels).numpy()
        found = score(targets.numpy(), predicted, average=None)
        assert (found >= 0.8).all()


def test_f1_is_fit_thresholds_and_rare_classes_are_drawn_to_the_others() -> None:
    probabilities, targets = outputs(100)
    assert DecisionRule().fit(probabilities, targets).equal(fit_thresholds(probabilities, targets))
    targets[:, 2] = 0  # no positive: the shared threshold
    for text in ("precision=0.8", "recall=0.8", "cost=3"):
        rule = DecisionRule.parse(text)
        shared = rule.shared_cut(probabilities, targets)
        assert float(rule.fit(probabilities, targets)[2]) == pytest.approx(1 / (1 + math.exp(-shared)))


def test_unknown_labels_are_left_out() -> None:
    probabilities, targets = outputs(60)
    unknown = torch.full_like(targets, -1)
    padded = torch.cat([probabilities, torch.full_like(probabilities, 0.99)]), torch.cat([targets, unknown])
    for text in ("f1", "precision=0.8", "recall=0.8", "cost=3"):
        rule = DecisionRule.parse(text)
        assert torch.allclose(rule.fit(*padded), rule.fit(probabilities, targets))


def test_top_takes_so_many_labels_of_each_sample() -> None:
    probabilities, _ = outputs(20, 5)
    labels = DecisionRule.parse("top=2").labels(probabilities, None)
    assert labels.sum(dim=1).tolist() == [2] * 20
    least = torch.where(labels, probabilities, 1.0).amin(dim=1)
    assert bool((least >= torch.where(labels, 0.0, probabilities).amax(dim=1)).all())
    assert DecisionRule("top", 9).labels(probabilities, None).all()


@pytest.mark.parametrize(
    "text", ["accuracy", "f1=1", "precision", "precision=0", "recall=1.5", "cost=-1", "top=1.5", "top=x"]
)
def test_what_is_no_rule_gets_a_sentence(text: str) -> None:
    with pytest.raises(UserError, match=r"f1, precision=0\.9, recall=0\.8, cost=5 or top=3"):
        DecisionRule.parse(text)


@pytest.mark.parametrize("text", ["f1", "precision=0.9", "recall=0.8", "cost=5", "top=3"])
def test_rules_print_as_they_are_read(text: str) -> None:
    assert str(DecisionRule.parse(text)) == text


def test_no_row_is_decided_by_a_threshold_that_it_fitted() -> None:
    """A row's own label has no influence on its decision."""
    probabilities, targets = outputs(50, 2)
    folds = torch.arange(50) % 5
    before = cross_fitted_labels(DecisionRule(), probabilities, targets, folds)
    changed = targets.clone()
    changed[folds == 2] = 1 - changed[folds == 2]
    after = cross_fitted_labels(DecisionRule(), probabilities, changed, folds)
    assert after[folds == 2].equal(before[folds == 2])


def test_expected_scores_do_not_flatter() -> None:
    """Of outputs without any information, thresholds reach on new data what chance does, not more."""
    generator = torch.Generator().manual_seed(1)
    probabilities = torch.rand(200, 40, generator=generator)
    targets = (torch.rand(200, 40, generator=generator) < 0.1).to(torch.int8)
    own = probabilities >= fit_thresholds(probabilities, targets, shrinkage=0.0)
    flattered = (2 * (own & (targets == 1)).sum(0) / (own.sum(0) + (targets == 1).sum(0))).mean()
    folds = validation_folds(targets)
    honest = expected_scores(DecisionRule(), probabilities, targets, folds, resamples=2).scores["f1"].mean()
    assert float(flattered) > 0.2
    assert float(honest) < 0.19  # predicting everything has 2 · 0.1 / 1.1


def test_intervals_hold_what_thresholds_reach_on_new_data() -> None:
    """Fitted on 150 rows, scored on 20 000 others, 40 times: about 95 of 100 intervals hold the score."""
    rule, held = DecisionRule(), []
    new, labels = outputs(20_000, 1, seed=999)
    for seed in range(40):
        probabilities, targets = outputs(150, 1, seed=seed)
        found = expected_scores(rule, probabilities, targets, torch.arange(150) % 5)
        predicted = new >= rule.fit(probabilities, targets)
        hits = float((predicted & (labels == 1)).sum())
        reached = {"precision": hits / float(predicted.sum()), "recall": hits / float((labels == 1).sum())}
        held += [
            float(found.low[name]) <= value <= float(found.high[name]) for name, value in reached.items()
        ]
    assert np.mean(held) > 0.9


def test_intervals_draw_groups_whole() -> None:
    """Each row five times: as groups, they say no more than the rows alone."""
    probabilities, targets = outputs(300, 3, seed=4)
    alone = expected_scores(DecisionRule(), probabilities, targets, torch.arange(300) % 5, resamples=2000)
    copies = torch.arange(300).repeat(5)
    rows = (DecisionRule(), probabilities[copies], targets[copies], copies % 5)
    grouped = expected_scores(*rows, groups=copies, resamples=2000)
    apart = expected_scores(*rows, resamples=2000)
    for name in ("precision", "recall", "f1"):
        width, of_groups, of_rows = (each.high[name] - each.low[name] for each in (alone, grouped, apart))
        assert (of_groups / width).tolist() == pytest.approx([1.0] * 3, abs=0.2)
        assert (of_rows < 0.8 * of_groups).all()


def test_decisions_are_written_and_read(tmp_path) -> None:
    probabilities, targets = outputs(100)
    targets[:, 2] = 0
    targets[:3, 2] = 1
    decisions = fit_decisions(DecisionRule(), probabilities, targets, classes=["a", "b", "c"])
    write_decisions(tmp_path, decisions)
    assert read_decisions(tmp_path) == decisions
    assert decisions.thresholds.equal(fit_thresholds(probabilities, targets))
    assert [each.promises for each in decisions.classes] == [True, True, False]
    assert decisions.classes[2].positives == 3 < FEWEST_POSITIVES
    assert decisions.classes[2].f1_interval is None
    low, high = decisions.classes[0].f1_interval
    assert low < decisions.classes[0].f1 < high
    assert read_decisions(tmp_path / "nothing") is None


@pytest.mark.parametrize("change", [{"format": "x"}, {"classes": 3}, {"rule": None}, {"more": 1}])
def test_a_broken_file_gets_a_sentence(tmp_path, change) -> None:
    decisions = fit_decisions(DecisionRule(), *outputs(50), classes=["a", "b", "c"])
    write_decisions(tmp_path, decisions)
    path = tmp_path / "decisions.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=r"decisions\.json cannot be read"):
        read_decisions(tmp_path)
