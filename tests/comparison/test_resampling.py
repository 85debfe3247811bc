"""Resampled measures against those of the repeated samples, and influences against differences."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

from resampled_summaries import resampled_summaries
from tailmask.comparison import resampling
from tailmask.comparison.resampling import Resampler
from tailmask.comparison.sample_influence import average_precision_influence
from tailmask.metrics import Evaluation, average_precision


def outputs(num_samples: int, num_classes: int, *, unknown: float = 0.0) -> tuple[Tensor, Tensor]:
    targets = (torch.rand(num_samples, num_classes) < 0.3).to(torch.int8)
    logits = torch.randn(num_samples, num_classes) + 2 * targets - 1
    targets[torch.rand(num_samples, num_classes) < unknown] = -1
    return logits, targets


@pytest.mark.parametrize("num_samples", [80, 301])
@pytest.mark.parametrize("single_label", [False, True])
def test_equals_weighted_measures(
    num_samples: int, single_label: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resampling, "MAX_GROUPS", 100)  # one sample a group, and about three
    logits, targets = outputs(num_samples, 7, unknown=0.0 if single_label else 0.1)
    if single_label:
        targets = torch.nn.functional.one_hot(torch.randint(7, (num_samples,)), 7).to(torch.int8)
    evaluation = Evaluation(
        logits, targets, train_positives=torch.arange(7), single_label=single_label, rarest=(2,)
    )
    resampler = Resampler(num_samples, 7, num_resamples=50, seed=3)
    assert resampler.num_groups == min(num_samples, 100)
    resamples = resampler.resample(evaluation)
    expected = resampled_summaries(evaluation, resampler.weights[:, resampler.group])
    assert resamples.summary.keys() == {name for name in expected if not name.startswith(("ece", "brier"))}
    for name, values in resamples.summary.items():
        if not name.startswith("ap"):
            torch.testing.assert_close(values, expected[name], rtol=1e-5, atol=1e-6)
    by_class = evaluation.report().per_class["recall" if single_label else "f1"]
    assert resamples.classes.shape == (50, 7)
    torch.testing.assert_close(resamples.classes.mean(dim=0).double(), by_class, atol=0.15, rtol=0)


def test_average_precision_deviates_as_in_the_exact_bootstrap() -> None:
    logits, targets = outputs(600, 5)
    evaluation = Evaluation(logits, targets, train_positives=torch.arange(5), rarest=(2,))
    resampler = Resampler(600, 5, num_resamples=400)
    moved = resampler.resample(evaluation).summary
    exact = resampled_summaries(evaluation, resampler.weights[:, resampler.group])
    for name in ("ap", "ap_tail", "ap_rarest_2"):
        assert moved[name].std() == pytest.approx(float(exact[name].std()), rel=0.1)
        assert torch.corrcoef(torch.stack([moved[name], exact[name]]))[0, 1] > 0.98


def test_blocks_of_many_classes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, targets = outputs(60, 40)
    evaluation = Evaluation(logits, targets, train_positives=torch.arange(40))
    whole = Resampler(60, 40, num_resamples=300).resample(evaluation)
    monkeypatch.setattr(resampling, "MAX_SUMS", 40 * 60 * 5)  # blocks of 75 resamples, and of some classes
    parts = Resampler(60, 40, num_resamples=300).resample(evaluation)
    for name, values in whole.summary.items():
        torch.testing.assert_close(parts.summary[name], values)
    torch.testing.assert_close(parts.classes, whole.classes)


def test_memory_is_bounded_by_fewer_groups_for_many_classes() -> None:
    resampler = Resampler(10_000, 20_000, num_resamples=1000)
    assert resampler.num_groups == 100
    assert resampler.num_class_resamples == 419


@pytest.mark.parametrize("ties", [False, True])
def test_influence_is_the_derivative_by_weights(ties: bool) -> None:
    logits, targets = outputs(40, 3, unknown=0.1)
    scores = (logits * 2).round() if ties else logits
    scores = scores.double()
    influence, value = average_precision_influence(scores, targets)
    torch.testing.assert_close(value, average_precision(scores, targets))
    step = 1e-4
    for c in range(3):
        known = (targets[:, c] >= 0).nonzero().squeeze(1)
        for row, sample in enumerate(known):
            up, down = (1 + sign * step * torch.eye(len(known))[row] for sign in (1, -1))
            above, below = (
                average_precision_score(targets[known, c], scores[known, c], sample_weight=weights)
                for weights in (up, down)
            )
            slope = (above - below) / (2 * step)
            assert float(influence[sample, c]) == pytest.approx(slope, abs=2e-3)


def test_class_without_positives_has_no_influence() -> None:
    influence, value = average_precision_influence(torch.randn(5, 1), torch.zeros(5, 1, dtype=torch.int8))
    assert value.isnan().all()
    assert not influence.any()
