from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from metric_cases import cases, random_case
from sklearn.metrics import accuracy_score, f1_score

from tailmask.metrics import exact_match, mean_over_samples, sample_f1


@pytest.mark.parametrize("seed", range(3))
def test_equal_scikit_learn(seed):
    scores, targets = random_case(seed)
    predictions = scores > 0.2
    assert float(exact_match(predictions, targets).mean()) == pytest.approx(
        accuracy_score(targets, predictions)
    )
    expected = f1_score(targets, predictions, average="samples", zero_division=0)
    assert float(sample_f1(predictions, targets).mean()) == pytest.approx(expected)


def test_only_known_labels_are_judged():
    predictions = torch.tensor([[1, 1, 0], [1, 1, 0], [1, 1, 1]], dtype=torch.bool)
    targets = torch.tensor([[1.0, -1.0, 0.0], [1.0, 0.0, torch.nan], [-1.0, torch.nan, -1.0]])
    assert exact_match(predictions, targets).nan_to_num(nan=9.0).tolist() == [1, 0, 9]
    assert sample_f1(predictions, targets).nan_to_num(nan=9.0).tolist() == pytest.approx([1, 2 / 3, 9])


@given(cases())
def test_permuting_classes_changes_nothing(case):
    scores, targets = case
    order = torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(1))
    for measure in (exact_match, sample_f1):
        value = measure(scores > 0, targets)
        permuted = measure(scores[:, order] > 0, targets[:, order])
        torch.testing.assert_close(permuted, value, equal_nan=True)


@given(cases())
def test_unknown_columns_change_nothing(case):
    scores, targets = case
    wider = torch.cat([targets, torch.full_like(targets, -1)], dim=1)
    predictions = torch.cat([scores > 0, scores < 0], dim=1)
    for measure in (exact_match, sample_f1):
        torch.testing.assert_close(measure(predictions, wider), measure(scores > 0, targets), equal_nan=True)


def test_means_leave_nan_out():
    values = torch.tensor([[1.0, math.nan], [0.5, math.nan], [math.nan, math.nan]])
    first, second = mean_over_samples(values).tolist()
    assert first == 0.75
    assert math.isnan(second)
