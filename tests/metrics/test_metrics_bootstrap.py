from __future__ import annotations

import pytest
import torch
from metric_cases import random_case

from tailmask.metrics import Evaluation, bootstrap_weights, evaluate


def test_weights_count_draws_with_replacement():
    weights = bootstrap_weights(50, 400, generator=torch.Generator().manual_seed(3))
    assert weights.sum(dim=1).tolist() == [50] * 400
    share_left_out = float((weights == 0).float().mean())
    assert share_left_out == pytest.approx((1 - 1 / 50) ** 50, abs=0.01)
    again = bootstrap_weights(50, 400, generator=torch.Generator().manual_seed(3))
    assert torch.equal(weights, again)


@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_resampled_summary_is_that_of_the_repeated_samples(unknown):
    scores, targets = random_case(1, num_samples=80, unknown=unknown)
    options = {"train_positives": torch.arange(7), "rarest": (3,), "frequent": (2,)}
    weights = bootstrap_weights(80, 5, generator=torch.Generator().manual_seed(0))
    found = Evaluation(scores, targets, **options).resample(weights)
    for row, repeats in enumerate(weights.long()):
        expected = evaluate(
            scores.repeat_interleave(repeats, 0), targets.repeat_interleave(repeats, 0), **options
        ).summary
        assert set(expected) - set(found) == {"ece", "ece_pooled", "brier"}
        for name, values in found.items():
            assert float(values[row]) == pytest.approx(expected[name], abs=1e-5, nan_ok=True), name


def test_each_sample_once_gives_the_report():
    scores, targets = random_case(2)
    evaluation = Evaluation(scores, targets)
    once = evaluation.resample(torch.ones(1, len(scores)))
    summary = evaluation.report().summary
    assert {name: float(values[0]) for name, values in once.items()} == pytest.approx(
        {name: summary[name] for name in once}, abs=1e-6
    )


def test_spread_of_resamples_is_the_standard_error():
    """Exact match is a share, whose bootstrap deviation is known: √(p (1 − p) / N)."""
    scores, targets = random_case(0, num_samples=1000, num_classes=3)
    evaluation = Evaluation(scores, targets)
    share = evaluation.report().summary["exact_match"]
    weights = bootstrap_weights(1000, 2000, generator=torch.Generator().manual_seed(0))
    spread = float(evaluation.resample(weights)["exact_match"].std())
    assert spread == pytest.approx((share * (1 - share) / 1000) ** 0.5, rel=0.05)
