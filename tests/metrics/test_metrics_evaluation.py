from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from metric_cases import cases, random_case
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    hamming_loss,
    label_ranking_loss,
    precision_score,
    recall_score,
)
from torchmetrics.functional.classification import multiclass_calibration_error

from tailmask.metrics import brier_score, calibration_error, evaluate

COUNTS = torch.tensor([50, 5, 900, 20, 20, 7, 300])


def test_summary_equals_scikit_learn():
    scores, targets = random_case(0)
    thresholds = torch.linspace(0.3, 0.7, 7)
    report = evaluate(
        scores, targets, train_positives=COUNTS, thresholds=thresholds, rarest=(2,), frequent=(3,)
    )
    predictions, rare, common, third = scores.sigmoid() >= thresholds, [1, 5], [2, 6, 0], [1, 5]
    options = {"average": "macro", "zero_division": 0}
    assert (targets == 0).all(1).any(), "a sample without a label counts in the ranking loss as well"
    expected = {
        "precision": precision_score(targets, predictions, **options),
        "recall": recall_score(targets, predictions, **options),
        "f1": f1_score(targets, predictions, **options),
        "ap": average_precision_score(targets, scores, average="macro"),
        "micro_f1": f1_score(targets, predictions, average="micro"),
        "sample_f1": f1_score(targets, predictions, average="samples", zero_division=0),
        "exact_match": accuracy_score(targets, predictions),
        "hamming_loss": hamming_loss(targets, predictions),
        "ranking_loss": label_ranking_loss(targets, scores),
        "f1_rarest_2": f1_score(targets[:, rare], predictions[:, rare], **options),
        "recall_rarest_2": recall_score(targets[:, rare], predictions[:, rare], **options),
        "precision_frequent_3": precision_score(targets[:, common], predictions[:, common], **options),
        "f1_tail": f1_score(targets[:, third], predictions[:, third], **options),
        "ap_tail": average_precision_score(targets[:, third], scores[:, third], average="macro"),
        "ece": float(calibration_error(scores.sigmoid(), targets)[0].mean()),
        "ece_pooled": float(calibration_error(scores.sigmoid(), targets)[1]),
        "brier": float(brier_score(scores.sigmoid(), targets).mean()),
    }
    for name, value in expected.items():
        assert report.summary[name] == pytest.approx(value), name
    assert report.per_class["positives"].tolist() == targets.sum(dim=0).tolist()
    assert report.per_class["train_positives"].tolist() == COUNTS.tolist()
    assert report.per_class["f1"].tolist() == pytest.approx(f1_score(targets, predictions, average=None))


def test_every_group_has_every_class_measure():
    report = evaluate(*random_case(0), train_positives=COUNTS, rarest=(3, 5), frequent=(1,))
    for group in ("head", "medium", "tail", "rarest_3", "rarest_5", "frequent_1"):
        for measure in ("precision", "recall", "f1", "ap"):
            assert f"{measure}_{group}" in report.summary


def test_training_counts_may_be_a_list():
    scores, targets = random_case(0)
    report = evaluate(scores, targets, train_positives=COUNTS.tolist())
    assert report.to_json() == evaluate(scores, targets, train_positives=COUNTS).to_json()


def test_names_for_few_classes_and_no_counts():
    summary = evaluate(torch.randn(5, 2), torch.ones(5, 2)).summary
    assert "precision_at_1" in summary
    assert "precision_at_3" not in summary
    assert not any("tail" in name for name in summary)


def test_unknown_labels_are_as_if_not_there():
    scores, targets = random_case(4, unknown=0.3)
    before = evaluate(scores, targets, train_positives=COUNTS)
    changed = scores.where(targets >= 0, 99.0)
    unknown = torch.cat([targets.float().where(targets >= 0, torch.nan), torch.full((3, 7), -1.0)])
    after = evaluate(torch.cat([changed, torch.randn(3, 7)]), unknown, train_positives=COUNTS)
    assert after.summary == pytest.approx(before.summary)


@given(cases())
def test_permuting_samples_and_classes_changes_nothing(case):
    scores, targets = case
    generator = torch.Generator().manual_seed(1)
    rows, columns = (torch.randperm(size, generator=generator) for size in scores.shape)
    counts = torch.arange(scores.shape[1])
    before = evaluate(scores, targets, train_positives=counts)
    after = evaluate(scores[rows][:, columns], targets[rows][:, columns], train_positives=counts[columns])
    assert after.summary == pytest.approx(before.summary, nan_ok=True)
    for name, values in before.per_class.items():
        torch.testing.assert_close(after.per_class[name], values[columns], equal_nan=True)


@given(cases())
def test_defined_for_every_input_and_json_without_nan(case):
    report = evaluate(*case, train_positives=torch.zeros(case[0].shape[1]))
    found = json.loads(json.dumps(report.to_json(), allow_nan=False))
    for name in ("precision", "recall", "f1", "micro_f1", "hamming_loss"):
        assert 0 <= report.summary[name] <= 1
    for name, value in found["summary"].items():
        assert math.isnan(report.summary[name]) if value is None else value == report.summary[name]
    for name, values in found["per_class"].items():
        read = torch.tensor([math.nan if value is None else value for value in values])
        torch.testing.assert_close(read, report.per_class[name], equal_nan=True, check_dtype=False)


def test_no_samples_at_all():
    report = evaluate(torch.zeros(0, 3), torch.zeros(0, 3), train_positives=torch.arange(3))
    assert report.summary["f1"] == 0
    assert math.isnan(report.summary["exact_match"])
    assert math.isnan(report.summary["ap"])


def test_a_probability_at_the_threshold_is_predicted():
    report = evaluate(torch.tensor([[0.0, 0.0]]), torch.ones(1, 2), thresholds=torch.tensor([0.5, 0.6]))
    assert report.per_class["recall"].tolist() == [1, 0]


def test_absent_classes_count_in_f1_and_not_in_average_precision():
    logits, targets = torch.tensor([[3.0, 1.0], [-3.0, 1.0]]), torch.tensor([[1, 0], [0, 0]])
    report = evaluate(logits, targets)
    assert report.summary["recall"] == 0.5
    assert report.summary["ap"] == 1.0
    assert report.to_json()["per_class"]["ap"] == [1.0, None]


class TestSingleLabel:
    def case(self, seed=0, num_classes=6):
        rng = np.random.default_rng(seed)
        index = torch.from_numpy(rng.choice(num_classes, 300, p=np.arange(1, 7) / 21))
        logits = torch.from_numpy(rng.normal(size=(300, num_classes))).float()
        logits[torch.arange(300), index] += 1.5
        return logits, index

    def test_errors_equal_scikit_learn(self):
        logits, index = self.case()
        counts = torch.tensor([9, 8, 70, 60, 50, 40])
        report = evaluate(logits, index, train_positives=counts, single_label=True, rarest=(2,))
        predicted = logits.argmax(dim=1)
        assert report.summary["error"] == pytest.approx(1 - accuracy_score(index, predicted))
        assert report.summary["error_balanced"] == pytest.approx(
            1 - balanced_accuracy_score(index, predicted)
        )
        recalls = recall_score(index, predicted, average=None)
        assert report.per_class["error"].tolist() == pytest.approx((1 - recalls).tolist())
        assert report.summary["error_rarest_2"] == pytest.approx(1 - recalls[:2].mean())
        assert report.summary["f1"] == pytest.approx(f1_score(index, predicted, average="macro"))
        assert "exact_match" not in report.summary

    def test_one_hot_rows_are_the_same(self):
        logits, index = self.case()
        one_hot = torch.nn.functional.one_hot(index, 6)
        assert (
            evaluate(logits, one_hot, single_label=True).summary
            == evaluate(logits, index, single_label=True).summary
        )

    def test_unknown_samples_are_left_out(self):
        logits, index = self.case()
        more = torch.cat([logits, torch.randn(4, 6)])
        report = evaluate(more, torch.cat([index, torch.full((4,), -1)]), single_label=True)
        assert report.summary == pytest.approx(evaluate(logits, index, single_label=True).summary)

    def test_classes_without_test_samples_are_left_out_of_the_balanced_error(self):
        logits = torch.tensor([[5.0, 0.0, 0.0], [5.0, 0.0, 0.0]])
        report = evaluate(logits, torch.tensor([0, 1]), single_label=True)
        assert report.summary["error_balanced"] == 0.5
        assert math.isnan(float(report.per_class["error"][2]))

    def test_softmax_is_calibrated_over_the_predicted_class(self):
        logits, index = self.case()
        report = evaluate(logits, index, single_label=True, activation="softmax")
        expected = multiclass_calibration_error(logits.softmax(dim=1), index, num_classes=6, n_bins=15)
        assert report.summary["ece_top"] == pytest.approx(float(expected), abs=1e-5)
        classes = torch.nn.functional.one_hot(index, 6)
        assert report.summary["ap"] == pytest.approx(average_precision_score(classes, logits.softmax(dim=1)))

    def test_calibration_is_that_of_the_predicted_class_where_probabilities_round_to_one(self) -> None:
        logits = torch.tensor([[18.0, 30.0, -5.0]])  # both of the first are 1 in float32
        for label, error in ((1, 0.0), (0, 1.0)):
            summary = evaluate(logits, torch.tensor([label]), single_label=True).summary
            assert (summary["error"], summary["ece_top"]) == (error, error)

    def test_several_labels_are_refused(self):
        with pytest.raises(ValueError, match=r"one class per sample, got .* 2"):
            evaluate(torch.zeros(1, 2), torch.ones(1, 2), single_label=True)

    @pytest.mark.parametrize("index", [3, -2, -100])
    def test_indices_of_other_classes_are_refused(self, index):
        with pytest.raises(ValueError, match="from 0 to 2, or -1 if unknown"):
            evaluate(torch.zeros(1, 3), torch.tensor([index]), single_label=True)


def test_probabilities_pass_as_they_are():
    scores, targets = random_case(2)
    expected, found = evaluate(scores, targets), evaluate(scores.sigmoid(), targets, activation="none")
    assert found.summary == pytest.approx(expected.summary)


def test_low_precision_logits_are_taken():
    scores, targets = random_case(2)
    rounded = scores.bfloat16()
    assert evaluate(rounded, targets).summary == evaluate(rounded.float(), targets).summary


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logits": torch.zeros(4, 2)}, "logits and targets must have the same shape"),
        ({"logits": torch.full((4, 3), torch.nan)}, "12 NaN"),
        ({"thresholds": torch.rand(2)}, r"shape \(3,\), got \(2,\)"),
        ({"activation": "tanh"}, "got 'tanh'"),
        ({"logits": torch.full((4, 3), 2.0), "activation": "none"}, "between 0 and 1"),
        ({"train_positives": torch.ones(2)}, "another data set"),
        ({"rarest": (2,)}, "need train_positives"),
        ({"rarest": (4,), "train_positives": torch.ones(3)}, "between 1 and 3"),
    ],
)
def test_bad_input_is_refused(changes, message):
    arguments = {"logits": torch.zeros(4, 3), "targets": torch.zeros(4, 3)} | changes
    with pytest.raises(ValueError, match=message):
        evaluate(**arguments)
