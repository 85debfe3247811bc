"""The thresholds that metrics predict by: their forms, what is refused, and the device that they go to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from metric_cases import random_case

from second_device import second_device
from tailmask.metrics import (
    Evaluation,
    StreamingMetrics,
    confusion,
    evaluate,
    mean_over_samples,
)

THRESHOLDS = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]


@pytest.mark.parametrize(
    "thresholds",
    [
        THRESHOLDS,
        tuple(THRESHOLDS),
        np.array(THRESHOLDS),
        np.array(THRESHOLDS, dtype=np.float32),
        torch.tensor(THRESHOLDS, dtype=torch.float64),
    ],
    ids=["list", "tuple", "array", "float32", "float64"],
)
def test_every_form_predicts_the_same(thresholds):
    scores, targets = random_case(0)
    expected = evaluate(scores, targets, thresholds=torch.tensor(THRESHOLDS)).summary
    assert evaluate(scores, targets, thresholds=thresholds).summary == expected
    metric = StreamingMetrics(7, thresholds=thresholds)
    metric.update(scores, targets)
    assert metric.compute()["f1"] == expected["f1"]


@pytest.mark.parametrize("threshold", [0, 1, 0.7, np.float32(0.7), torch.tensor(0.7)])
def test_one_number_is_for_all_classes(threshold):
    scores, targets = random_case(1)
    expected = evaluate(scores, targets, thresholds=[float(threshold)] * 7).summary
    assert evaluate(scores, targets, thresholds=threshold).summary == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_probability_at_its_threshold_is_predicted_in_any_precision(dtype):
    probabilities, targets = torch.tensor([[0.7, 0.1]], dtype=dtype), torch.ones(1, 2)
    for thresholds in ([0.7, 0.1], torch.tensor([0.7, 0.1], dtype=torch.float64)):
        report = evaluate(probabilities, targets, thresholds=thresholds, activation="none")
        assert report.summary["recall"] == 1


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        (50, "thresholds must lie between 0 and 1, got 50: "),
        (-0.1, "thresholds must lie between 0 and 1, got -0.1: "),
        (float("nan"), "thresholds must lie between 0 and 1, got nan: "),
        ([0.5, 0.5, 1.5], "thresholds must lie between 0 and 1, got 1.5: "),
        (torch.tensor([0.5, torch.inf, 0.5]), "thresholds must lie between 0 and 1, got inf: "),
        ([0.5, 0.5], r"thresholds must be one number or of shape \(3,\), got \(2,\)"),
        (torch.full((1, 3), 0.5), r"thresholds must be one number or of shape \(3,\), got \(1, 3\)"),
        ("tuned", "thresholds must be numbers, got an array of <U5: "),
        (None, "thresholds must be numbers, got an array of object: "),
    ],
)
def test_what_are_no_thresholds(thresholds, message):
    with pytest.raises(ValueError, match=message):
        evaluate(torch.zeros(2, 3), torch.ones(2, 3), thresholds=thresholds)
    with pytest.raises(ValueError, match=message):
        StreamingMetrics(3, thresholds=thresholds)


@pytest.mark.parametrize(
    "thresholds", [0.4, THRESHOLDS, torch.tensor(THRESHOLDS)], ids=["one", "list", "tensor"]
)
def test_thresholds_go_where_the_logits_are(thresholds):
    scores, targets = random_case(2, unknown=0.2)

    def measured(device):
        there, labels = scores.to(device), targets.to(device)
        return (
            Evaluation(there, labels, thresholds=thresholds).predictions.cpu(),
            confusion(there > 0, labels).f1.cpu(),
            mean_over_samples(there).cpu(),
        )

    torch.testing.assert_close(measured(second_device()), measured("cpu"), equal_nan=True)
