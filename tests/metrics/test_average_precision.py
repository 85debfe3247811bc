from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from metric_cases import cases, random_case
from sklearn.metrics import average_precision_score
from torchmetrics.functional.classification import multilabel_average_precision

from tailmask.metrics import average_precision


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_equals_scikit_learn(seed, ties):
    scores, targets = random_case(seed, unknown=0.2, ties=ties)
    values = average_precision(scores, targets)
    for c in range(scores.shape[1]):
        known = targets[:, c] >= 0
        expected = average_precision_score(targets[known, c], scores[known, c])
        assert float(values[c]) == pytest.approx(expected)


def test_equals_torchmetrics():
    scores, targets = random_case(3, unknown=0.2)
    expected = multilabel_average_precision(
        scores.sigmoid(), targets.int(), num_labels=7, average="none", ignore_index=-1
    )
    torch.testing.assert_close(average_precision(scores, targets).float(), expected)


def test_ranks_by_logits_whose_probabilities_are_equal():
    scores, targets = torch.tensor([[30.0], [20.0]]), torch.tensor([[1], [0]])
    assert average_precision(scores, targets).tolist() == [1]
    assert average_precision(scores.sigmoid(), targets).tolist() == [0.5]


def test_absent_class_is_nan():
    assert math.isnan(float(average_precision(torch.rand(3, 1), torch.zeros(3, 1))))
    assert math.isnan(float(average_precision(torch.rand(3, 1), torch.full((3, 1), -1))))


@given(cases())
def test_monotone_maps_and_orders_change_nothing(case):
    scores, targets = case
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(1))
    values = average_precision(scores, targets)
    torch.testing.assert_close(
        average_precision(scores[order] * 2 + 1, targets[order]), values, equal_nan=True
    )
    flipped = average_precision(scores.flip(1), targets.flip(1))
    torch.testing.assert_close(flipped.flip(0), values, equal_nan=True)
