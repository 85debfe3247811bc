from __future__ import annotations

import pytest
import torch
from hypothesis import given
from metric_cases import cases, random_case
from sklearn.metrics import f1_score, hamming_loss, precision_recall_fscore_support
from torchmetrics.functional.classification import multilabel_stat_scores

from tailmask.metrics import Confusion, confusion, exact_match, known_labels, sample_f1


@pytest.mark.parametrize("seed", range(3))
def test_equals_scikit_learn(seed):
    scores, targets = random_case(seed)
    targets[:, 3] = 0  # never present
    predictions = scores > 0.5
    predictions[:, 4] = False  # never predicted
    counts = confusion(predictions, targets)
    precision, recall, f1, positives = precision_recall_fscore_support(targets, predictions, zero_division=0)
    torch.testing.assert_close(counts.precision, torch.from_numpy(precision))
    torch.testing.assert_close(counts.recall, torch.from_numpy(recall))
    torch.testing.assert_close(counts.f1, torch.from_numpy(f1))
    assert counts.positives.tolist() == positives.tolist()
    assert float(counts.micro_f1) == pytest.approx(f1_score(targets, predictions, average="micro"))
    assert float(counts.hamming_loss) == pytest.approx(hamming_loss(targets, predictions))


def test_equals_torchmetrics_with_unknown_labels():
    scores, targets = random_case(5, unknown=0.3)
    counts = confusion(scores > 0, targets)
    expected = multilabel_stat_scores(
        (scores > 0).int(), targets.int(), num_labels=7, average="none", ignore_index=-1
    )
    order = (counts.true_positives, counts.false_positives, counts.true_negatives, counts.false_negatives)
    assert torch.stack(order, dim=1).tolist() == expected[:, :4].tolist()
    assert torch.equal(counts.known, (targets >= 0).sum(dim=0))


def test_values_worked_out_by_hand():
    predictions = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], dtype=torch.bool)
    targets = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, -1.0, torch.nan]])
    counts = confusion(predictions, targets)
    assert counts.precision.tolist() == pytest.approx([2 / 3, 1 / 2, 0])
    assert counts.recall.tolist() == pytest.approx([2 / 3, 1 / 2, 0])
    assert float(counts.micro_f1) == pytest.approx(6 / 10)
    assert float(counts.hamming_loss) == pytest.approx(4 / 10)


def test_soft_labels_count_by_their_side_of_one_half():
    soft = torch.tensor([[0.5, 0.49, 0.0], [1.0, 0.51, 0.1]])
    counts = confusion(torch.ones(2, 3).bool(), soft)
    assert counts.true_positives.tolist() == [2, 1, 0]
    assert counts.false_positives.tolist() == [0, 1, 2]


@given(cases())
def test_batches_add_up(case):
    scores, targets = case
    predictions = scores > 0
    half = len(scores) // 2
    parts = confusion(predictions[:half], targets[:half]) + confusion(predictions[half:], targets[half:])
    assert _tuple(parts) == _tuple(confusion(predictions, targets))


def test_more_labels_than_a_block_holds_are_all_counted():
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(-1, 2, (3 * known_labels.BLOCK // 1000, 1000), generator=generator)
    predictions = torch.rand(targets.shape, generator=generator) > 0.5
    counts = confusion(predictions, targets)
    assert torch.equal(counts.true_positives, (predictions & (targets == 1)).sum(dim=0))
    assert torch.equal(counts.false_positives, (predictions & (targets == 0)).sum(dim=0))
    assert torch.equal(counts.false_negatives, (~predictions & (targets == 1)).sum(dim=0))
    assert torch.equal(counts.known, (targets >= 0).sum(dim=0))


@pytest.mark.parametrize(
    ("predictions", "targets", "message"),
    [
        (torch.zeros(3, 2), torch.zeros(3, 3), "same shape"),
        (torch.zeros(3), torch.zeros(3), r"\(N, C\)"),
        (torch.zeros(1, 2), torch.tensor([[0, 2]]), "between"),
        (torch.zeros(1, 2), torch.tensor([[0.0, -0.5]]), "between"),
    ],
)
def test_bad_input_is_refused(predictions, targets, message):
    with pytest.raises(ValueError, match=message):
        confusion(predictions.bool(), targets)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32])
@pytest.mark.parametrize("measure", [confusion, exact_match, sample_f1])
def test_predictions_of_0_and_1_are_taken_and_probabilities_refused(measure, dtype):
    scores, targets = random_case(0, unknown=0.1)
    predictions = scores > 0
    given, expected = measure(predictions.to(dtype), targets), measure(predictions, targets)
    if measure is confusion:
        assert _tuple(given) == _tuple(expected)
    else:
        torch.testing.assert_close(given, expected, equal_nan=True)
    with pytest.raises(ValueError, match=r"predictions must be True or False, got 0\.1: compare"):
        measure(torch.tensor([[1.0, 0.1]]), torch.tensor([[1, 0]]))
    with pytest.raises(ValueError, match="predictions must be True or False, got 2"):
        measure(torch.tensor([[1, 2]]), torch.tensor([[1, 0]]))


def _tuple(counts: Confusion) -> list[object]:
    fields = (counts.true_positives, counts.false_positives, counts.false_negatives, counts.true_negatives)
    return [field.tolist() for field in fields]
