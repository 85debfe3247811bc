"""Paired intervals: exact where they can be, honest about few seeds, and never narrower than the test set."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from tailmask.comparison.intervals import PairedDifferences
from tailmask.comparison.resampling import Resampler
from tailmask.metrics import Evaluation


def interval(differences: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
    """Interval of S differences (S, K), resampled (B, S, K)."""
    pairs = PairedDifferences()
    for seed, difference in enumerate(differences):
        pairs.add(difference, resampled[:, seed])
    return pairs.interval(generator=torch.Generator().manual_seed(1))


def simulated_coverage(num_seeds: int, *, common: float, own: float, seeds: float) -> float:
    """Share of 2000 simulated comparisons of equal methods whose interval holds zero.

    The variances: of test samples for all seeds alike, of test samples for each seed's networks, of training.
    """
    generator = torch.Generator().manual_seed(num_seeds)

    def draw(*shape: int, variance: float) -> Tensor:
        return torch.randn(*shape, 2000, generator=generator, dtype=torch.float64) * math.sqrt(variance)

    differences = draw(1, variance=common) + draw(num_seeds, variance=own) + draw(num_seeds, variance=seeds)
    noise = draw(200, 1, variance=common) + draw(200, num_seeds, variance=own)
    low, high = interval(differences, differences + noise)
    return float(((low <= 0) & (high >= 0)).double().mean())


def test_seeds_alone_give_students_interval() -> None:
    differences = torch.tensor([[0.3], [0.1], [0.7], [0.2]], dtype=torch.float64)
    low, high = interval(differences, differences.expand(4000, 4, 1))
    expected = stats.t.interval(
        0.95, df=3, loc=differences.mean().item(), scale=stats.sem(differences.numpy()).item()
    )
    assert (low.item(), high.item()) == pytest.approx(expected, abs=1e-3)


def test_test_samples_alone_give_their_quantiles() -> None:
    noise = torch.randn(4000, 1, 1, dtype=torch.float64)
    noise -= noise.mean()
    differences = torch.full((3, 1), 2.0, dtype=torch.float64)
    low, high = interval(differences, differences + noise.expand(4000, 3, 1))
    expected = 2.0 + np.quantile(noise.numpy(), [0.025, 0.975])
    assert [low.item(), high.item()] == pytest.approx(expected.tolist(), abs=0.01)


def test_one_seed_is_of_the_test_samples_alone() -> None:
    noise = torch.randn(4000, 1, 1, dtype=torch.float64)
    low, high = interval(torch.zeros(1, 1, dtype=torch.float64), noise)
    assert float(high - low) == pytest.approx(2 * 1.96, rel=0.05)


def test_equal_differences_of_two_seeds_are_no_certainty() -> None:
    # Two seeds may agree by chance: the interval stays as wide as the test samples make it.
    noise = torch.randn(4000, 2, 1, dtype=torch.float64)
    low, high = interval(torch.zeros(2, 1, dtype=torch.float64), noise)
    assert float(high - low) == pytest.approx(2 * 1.96 / math.sqrt(2), rel=0.05)


def test_errors_of_one_seed_alone_are_counted_once() -> None:
    # They are in the spread over seeds already: resampled test samples must not widen Student's interval.
    generator = torch.Generator().manual_seed(0)
    differences = torch.randn(10, 500, generator=generator, dtype=torch.float64)
    noise = torch.randn(400, 10, 500, generator=generator, dtype=torch.float64)
    low, high = interval(differences, differences + noise)
    student = 2 * 2.262 * differences.std(dim=0) / math.sqrt(10)
    assert float(((high - low) / student).median()) == pytest.approx(1.0, abs=0.08)


def test_no_difference_at_all_is_an_interval_of_no_width() -> None:
    low, high = interval(torch.zeros(3, 1), torch.zeros(200, 3, 1))
    assert (float(low), float(high)) == (0.0, 0.0)


@pytest.mark.parametrize("num_seeds", [2, 3, 5, 10])
@pytest.mark.parametrize(
    ("common", "own", "seeds"),
    [(1, 0, 0), (0, 1, 0), (0, 0.001, 1), (1, 1, 1), (1, 0, 3), (0, 1, 5)],
)
def test_coverage_whatever_varies(num_seeds: int, common: float, own: float, seeds: float) -> None:
    assert 0.93 <= simulated_coverage(num_seeds, common=common, own=own, seeds=seeds) <= 0.997


def coverage(
    draw: Callable[[torch.Generator], tuple[Tensor, Callable[[], Tensor]]],
    metrics: tuple[str, ...],
    *,
    num_seeds: int,
    num_trials: int,
) -> Tensor:
    """Share of comparisons of networks of two equal methods whose interval holds zero, for each metric.

    `draw` gives the targets of a test set, and a function that gives the logits of a newly trained network.
    """
    held = torch.zeros(len(metrics))
    for trial in range(num_trials):
        generator = torch.Generator().manual_seed(trial)
        targets, train = draw(generator)
        resampler = Resampler(*targets.shape, num_resamples=200, seed=trial)
        pairs = PairedDifferences()
        for _ in range(num_seeds):
            points, resampled = [], []
            for _ in ("bce", "plm"):
                evaluation = Evaluation(train(), targets, ks=())
                summary, resamples = evaluation.report().summary, resampler.resample(evaluation).summary
                points.append(torch.tensor([summary[name] for name in metrics]))
                resampled.append(torch.stack([resamples[name] for name in metrics], dim=1))
            pairs.add(points[1] - points[0], resampled[1] - resampled[0])
        low, high = pairs.interval(generator=generator)
        held += (low <= 0) & (high >= 0)
    return held / num_trials


@pytest.mark.parametrize("num_seeds", [1, 3])
def test_coverage_on_outputs_of_equal_methods(num_seeds: int) -> None:
    """Errors differ by the luck of a training run, by each sample's difficulty for all, and by chance."""

    def draw(generator: torch.Generator) -> tuple[Tensor, Callable[[], Tensor]]:
        targets = (torch.rand(120, 3, generator=generator) < 0.3).to(torch.int8)
        difficulty = torch.randn(120, 3, generator=generator)

        def train() -> Tensor:
            # Of a single run nothing could tell luck from skill.
            luck = 0.3 * torch.randn(3, generator=generator) if num_seeds > 1 else 0.0
            noise = torch.randn(120, 3, generator=generator)
            return (2.0 * targets - 1.0) * (1.0 + luck) + 0.7 * difficulty + 0.7 * noise

        return targets, train

    held = coverage(draw, ("f1", "ap", "exact_match"), num_seeds=num_seeds, num_trials=200)
    assert (held >= 0.90).all(), held
    assert (held <= 0.995).all(), held


@pytest.mark.parametrize("num_seeds", [1, 3])
def test_coverage_of_a_rare_class(num_seeds: int) -> None:
    """Both methods find one in seven of 8 positives among 150 samples, and one in a hundred that are none."""
    targets = torch.zeros(150, 2, dtype=torch.int8)
    targets[:60, 0] = targets[90:98, 1] = 1

    def draw(generator: torch.Generator) -> tuple[Tensor, Callable[[], Tensor]]:
        def train() -> Tensor:
            found = torch.rand(150, generator=generator) < torch.where(targets[:, 1] == 1, 1 / 7, 0.01)
            return torch.stack([targets[:, 0], found], dim=1) * 8.0 - 4.0

        return targets, train

    held = coverage(draw, ("f1", "recall", "precision"), num_seeds=num_seeds, num_trials=100)
    assert (held >= 0.95).all(), (
        held
    )  # few hits make coarse steps: intervals are rather too wide, never narrow


def rare_case(*, right: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Interval of F1 over all classes and over the rare class; the methods get this many of its 10 right."""
    targets = torch.zeros(150, 3, dtype=torch.int8)
    targets[:60, 0] = targets[50:80, 1] = targets[90:100, 2] = 1
    resampler = Resampler(150, 3, num_resamples=400, seed=0)
    points, resampled = [], []
    for number in right:
        logits = targets * 8.0 - 4.0
        logits[90 + number : 100, 2] = -4.0
        evaluation = Evaluation(logits, targets, train_positives=torch.tensor([60, 30, 10]), ks=())
        summary, resamples = evaluation.report().summary, resampler.resample(evaluation).summary
        points.append(torch.tensor([summary[name] for name in ("f1", "f1_tail")]))
        resampled.append(torch.stack([resamples[name] for name in ("f1", "f1_tail")], dim=1))
    return interval((points[1] - points[0]).unsqueeze(0), (resampled[1] - resampled[0]).unsqueeze(1))


def test_one_hit_on_a_rare_class_is_not_clear() -> None:
    # A third of the resampled test sets do not have that sample.
    low, high = rare_case(right=(0, 1))
    assert low.tolist() == [0.0, 0.0]
    assert (high > 0).all()
    low, _ = rare_case(right=(0, 8))
    assert (low > 0).all()


@pytest.mark.parametrize("num_seeds", [1, 4])
@pytest.mark.parametrize(("variance", "wider"), [(0.8125, 1.5), (0.5, 1.0), (0.1, 1.0)])
def test_members_widen_what_pairs_say(num_seeds: int, variance: float, wider: float) -> None:
    # 4 · 0.8125 − 1 = 1.5²; half the variance is that of pairs alone, and less than that is noise.
    noise = torch.randn(4000, 1, dtype=torch.float64)
    noise = (noise - noise.mean()) / noise.std()
    with_members, without = PairedDifferences(), PairedDifferences()
    for _ in range(num_seeds):
        point = torch.full((1,), 2.0, dtype=torch.float64)
        with_members.add(point, 2.0 + noise, by_member=2.0 + math.sqrt(variance) * noise)
        without.add(point, 2.0 + noise)
    (low, high), (lower, upper) = (
        each.interval(generator=torch.Generator().manual_seed(0)) for each in (with_members, without)
    )
    assert float(high - low) == pytest.approx(wider * float(upper - lower), rel=1e-6)
