from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from metric_cases import random_case

from forked import run_ranks
from tailmask.metrics import StreamingMetrics, evaluate

COUNTS = torch.tensor([50, 5, 900, 20, 20, 7, 300])


def test_batches_give_the_values_of_evaluate():
    scores, targets = random_case(0, unknown=0.2)
    targets[10:30] = -1
    thresholds = torch.linspace(0.3, 0.7, 7)
    metric = StreamingMetrics(7, thresholds=thresholds, train_positives=COUNTS, rarest=(3,), frequent=(2,))
    for batch in torch.arange(len(scores)).split(33):
        metric.update(scores[batch], targets[batch])
    expected = evaluate(
        scores, targets, thresholds=thresholds, train_positives=COUNTS, rarest=(3,), frequent=(2,)
    ).summary
    found = {name: float(value) for name, value in metric.compute().items()}
    assert {"f1_rarest_3", "precision_frequent_2", "recall_tail", "exact_match"} < found.keys()
    assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-6)


def test_reset_forward_and_pickle():
    scores, targets = random_case(1)
    metric = StreamingMetrics(7)
    batch_value = metric(scores[:50], targets[:50])  # torchmetrics: the batch's own value, and accumulated
    assert float(batch_value["f1"]) == pytest.approx(evaluate(scores[:50], targets[:50]).summary["f1"])
    metric = pickle.loads(pickle.dumps(metric))
    metric.update(scores[50:], targets[50:])
    assert float(metric.compute()["f1"]) == pytest.approx(evaluate(scores, targets).summary["f1"])
    metric.reset()
    assert int(metric.counts.sum()) == 0


def test_rarest_classes_need_training_counts():
    with pytest.raises(ValueError, match="need train_positives"):
        StreamingMetrics(3, rarest=(1,))


def test_ranks_add_up(tmp_path):
    run_ranks(Path(__file__).with_name("streaming_ranks.py"), tmp_path)


def test_torchmetrics_is_imported_only_when_needed():
    code = "import sys, tailmask.metrics; print('torchmetrics' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_unknown_names_are_attribute_errors():
    import tailmask.metrics

    with pytest.raises(AttributeError, match="nonsense"):
        tailmask.metrics.nonsense  # noqa: B018 (the look-up is what is tested)


def test_outputs_of_a_training_that_diverged_are_refused():
    with pytest.raises(ValueError, match="14 NaN: did the training diverge"):
        StreamingMetrics(7).update(torch.full((2, 7), torch.nan), torch.zeros(2, 7))
