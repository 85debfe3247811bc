from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from metric_cases import cases, random_case
from sklearn.metrics import label_ranking_loss, ndcg_score
from torchmetrics.functional.classification import multilabel_ranking_loss

from tailmask.metrics import ndcg_at, precision_at, ranking_loss
from tailmask.metrics.ranking import ranking_measures


def judged(seed, *, ties=False):
    """Samples with present and absent labels, for which all libraries define every measure."""
    scores, targets = random_case(seed, num_classes=9, ties=ties)
    number = targets.sum(dim=1)
    keep = (number > 0) & (number < 9)
    return scores[keep], targets[keep]


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_ranking_loss_equals_scikit_learn(seed, ties):
    scores, targets = random_case(seed, num_classes=9, ties=ties)
    targets[:3], targets[3:7] = 0, 1  # samples with no label, and with all
    losses = ranking_loss(scores, targets)
    assert losses[:7].tolist() == [0.0] * 7
    assert float(losses.mean()) == pytest.approx(label_ranking_loss(targets, scores))


def test_ranking_loss_of_a_sample_without_a_known_label_is_not_defined():
    losses = ranking_loss(torch.rand(3, 2), torch.tensor([[-1, -1], [-1, 0], [1, -1]]))
    assert losses.isnan().tolist() == [True, False, False]
    assert losses[1:].tolist() == [0, 0]


def test_ranking_loss_equals_torchmetrics():
    scores, targets = judged(7)
    expected = multilabel_ranking_loss(scores.sigmoid(), targets, num_labels=9)
    assert float(ranking_loss(scores, targets).mean()) == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_ndcg_equals_scikit_learn(k, ties):
    scores, targets = judged(k, ties=ties)
    expected = ndcg_score(targets.numpy(), scores.numpy(), k=k)
    assert float(ndcg_at(scores, targets, k).mean()) == pytest.approx(expected)


@given(cases())
def test_equals_loops_over_every_order_of_ties(case):
    scores, targets = (tensor[:4, :5].numpy() for tensor in case)
    num_classes = scores.shape[1]
    k = min(3, num_classes)
    measures = ranking_measures(torch.from_numpy(scores), torch.from_numpy(targets), ks=(k,))
    for row, (score, target) in enumerate(zip(scores, targets, strict=True)):
        known = np.flatnonzero(target >= 0)
        present, absent = np.flatnonzero(target == 1), np.flatnonzero(target == 0)
        found = {name: float(values[row]) for name, values in measures.items()}
        wrong = [score[p] <= score[a] for p in present for a in absent]
        expected_loss = np.mean(wrong) if wrong else 0.0 if len(known) else math.nan
        assert found.pop("ranking_loss") == pytest.approx(expected_loss, nan_ok=True)
        if not len(present):
            assert all(math.isnan(value) for value in found.values())
            continue
        orders = [
            order
            for order in itertools.permutations(known)
            if all(score[a] >= score[b] for a, b in itertools.pairwise(order))
        ]
        hits = [[target[c] == 1 for c in order[:k]] for order in orders]
        assert found[f"precision_at_{k}"] == pytest.approx(np.mean([np.mean(hit) for hit in hits]))
        gains = [sum(h / math.log2(place + 2) for place, h in enumerate(hit)) for hit in hits]
        best = sum(1 / math.log2(place + 2) for place in range(min(k, len(present))))
        assert found[f"ndcg_at_{k}"] == pytest.approx(np.mean(gains) / best)


@given(cases())
def test_permuting_classes_changes_nothing(case):
    scores, targets = case
    order = torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(1))
    ks = (1, scores.shape[1])
    before = ranking_measures(scores, targets, ks=ks)
    after = ranking_measures(scores[:, order], targets[:, order], ks=ks)
    for name, values in before.items():
        torch.testing.assert_close(after[name], values, equal_nan=True)


def test_precision_worked_out_by_hand():
    scores = torch.tensor([[5.0, 4.0, 3.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
    targets = torch.tensor([[0, 1, -1, 1], [1, 0, 0, 0]])
    assert precision_at(scores, targets, 1).tolist() == [0, 0.25]
    assert precision_at(scores, targets, 2).tolist() == [0.5, 0.25]
    assert precision_at(scores, targets, 4).tolist() == [
        2 / 3,
        0.25,
    ]  # only three labels of the first are known


def test_shares_are_as_precise_as_their_type():
    scores, targets = torch.zeros(1, 3), torch.tensor([[1, 0, 0]])
    assert precision_at(scores, targets, 1).tolist() == [1 / 3]
    scores, targets = torch.tensor([[4.0, 3.0, 2.0, 1.0]]), torch.tensor([[0, 1, 0, 0]])
    assert ranking_loss(scores, targets).tolist() == [1 / 3]


def test_infinite_logits_are_ranked():
    scores = torch.tensor([[torch.inf, -torch.inf, 0.0]])
    assert ranking_loss(scores, torch.tensor([[1, -1, 0]])).tolist() == [0]
    assert ranking_loss(scores, torch.tensor([[0, 1, -1]])).tolist() == [1]


@pytest.mark.parametrize("k", [0, 5])
def test_impossible_k_is_refused(k):
    with pytest.raises(ValueError, match="between 1 and the number of classes, 4"):
        precision_at(torch.rand(2, 4), torch.ones(2, 4), k)


def test_nan_scores_are_refused():
    with pytest.raises(ValueError, match="1 NaN"):
        ranking_loss(torch.tensor([[1.0, torch.nan]]), torch.tensor([[1, 0]]))
