from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from metric_cases import cases, random_case
from sklearn.metrics import brier_score_loss
from torchmetrics.functional.classification import binary_calibration_error

from tailmask.metrics import Evaluation, brier_score, calibration_error


@pytest.mark.parametrize("unknown", [0.0, 0.4])
def test_calibration_error_equals_torchmetrics(unknown):
    scores, targets = random_case(0, unknown=unknown)
    probabilities = scores.sigmoid()
    classes, pooled = calibration_error(probabilities, targets)
    for c in range(scores.shape[1]):
        expected = binary_calibration_error(
            probabilities[:, c], targets[:, c].int(), n_bins=15, ignore_index=-1
        )
        assert float(classes[c]) == pytest.approx(float(expected), abs=1e-5)
    expected = binary_calibration_error(
        probabilities.flatten(), targets.flatten().int(), n_bins=15, ignore_index=-1
    )
    assert float(pooled) == pytest.approx(float(expected), abs=1e-5)


def test_brier_equals_scikit_learn():
    scores, targets = random_case(1, unknown=0.2)
    probabilities = scores.sigmoid()
    values = brier_score(probabilities, targets)
    for c in range(scores.shape[1]):
        known = targets[:, c] >= 0
        assert float(values[c]) == pytest.approx(brier_score_loss(targets[known, c], probabilities[known, c]))


def test_probabilities_that_are_right_have_no_error():
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.rand(200_000, 2, generator=generator)
    targets = (torch.rand(200_000, 2, generator=generator) < probabilities).int()
    classes, pooled = calibration_error(probabilities, targets)
    assert float(classes.max()) < 0.01
    assert float(pooled) < 0.01


def test_bounds_of_the_bins():
    probabilities = torch.tensor([[0.0], [1.0]])
    assert calibration_error(probabilities, torch.tensor([[0], [1]]))[0].tolist() == [0]
    assert calibration_error(probabilities, torch.tensor([[1], [0]]))[0].tolist() == [1]
    last_two = torch.tensor([[0.9], [0.95]])  # on either side of 14/15
    assert calibration_error(last_two, torch.tensor([[1], [0]]))[0].tolist() == pytest.approx(
        [(0.1 + 0.95) / 2]
    )


def test_without_a_known_label_there_is_none():
    classes, pooled = calibration_error(torch.rand(3, 1), torch.full((3, 1), -1))
    assert math.isnan(float(classes))
    assert math.isnan(float(pooled))
    assert math.isnan(float(brier_score(torch.rand(3, 1), torch.full((3, 1), -1))))


@given(cases())
def test_between_zero_and_one_and_independent_of_order(case):
    scores, targets = case
    probabilities = scores.sigmoid()
    classes, pooled = calibration_error(probabilities, targets)
    assert bool(((classes >= 0) & (classes <= 1) | classes.isnan()).all())
    assert math.isnan(float(pooled)) or float(pooled) <= float(classes.nan_to_num().max()) + 1e-9
    flipped, _ = calibration_error(probabilities.flip(0, 1), targets.flip(0, 1))
    torch.testing.assert_close(flipped.flip(0), classes, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_measured_stays_as_it_is(dtype):
    scores, targets = random_case(0, unknown=0.2)
    probabilities, labels = scores.sigmoid().to(dtype), targets.to(dtype)
    before = probabilities.clone(), labels.clone()
    evaluation = Evaluation(probabilities, labels, activation="none")
    first = evaluation.report().summary
    calibration_error(probabilities, labels)
    brier_score(probabilities, labels)
    assert torch.equal(probabilities, before[0])
    assert torch.equal(labels, before[1])
    assert evaluation.report().summary == pytest.approx(first, nan_ok=True)


@pytest.mark.parametrize("measure", [calibration_error, brier_score])
@pytest.mark.parametrize("value", [-1.0, 2.0, torch.nan])
def test_what_are_no_probabilities_are_refused(measure, value):
    with pytest.raises(ValueError, match=r"between 0 and 1, got .*: apply the sigmoid to logits first"):
        measure(torch.tensor([[0.5], [value]]), torch.tensor([[1], [0]]))
