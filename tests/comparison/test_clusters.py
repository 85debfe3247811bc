"""Resampled clusters: against a plain loop, and pairs of members against fresh draws of the members."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tailmask.comparison import resampling
from tailmask.comparison.clusters import common_labels, numbered, pair_numbers
from tailmask.comparison.intervals import PairedDifferences
from tailmask.comparison.resampling import Resampler
from tailmask.data.images.digit_pairs import one_of_each_other, union
from tailmask.data.public.portable_draws import Draws
from tailmask.metrics import Evaluation, evaluate

CLASSES = 4


def outputs(num_samples: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    targets = (torch.rand(num_samples, CLASSES, generator=generator) < 0.3).to(torch.int8)
    return torch.randn(num_samples, CLASSES, generator=generator) + 2 * targets - 1, targets


def test_samples_that_are_their_own_clusters_are_resampled_as_without() -> None:
    evaluation = Evaluation(*outputs(300), train_positives=torch.arange(CLASSES))
    plain = Resampler(300, CLASSES, num_resamples=100, seed=2)
    own = Resampler(300, CLASSES, num_resamples=100, seed=2, clusters=torch.randperm(300) * 7 + 5)
    expected, found = plain.resample(evaluation), own.resample(evaluation)
    assert all(torch.equal(found.summary[name], values) for name, values in expected.summary.items())
    assert torch.equal(found.classes, expected.classes)


def test_clusters_are_drawn_whole() -> None:
    logits, targets = outputs(90)
    clusters = torch.randint(25, (90,), generator=torch.Generator().manual_seed(1))
    resampler = Resampler(90, CLASSES, num_resamples=30, clusters=clusters)
    found = resampler.resample(Evaluation(logits, targets, ks=()))
    for resample, weights in enumerate(resampler.weights.int().tolist()):
        rows = []
        for cluster in clusters.unique():
            (group,) = set(resampler.group[clusters == cluster].tolist())
            rows += (clusters == cluster).nonzero().flatten().tolist() * weights[group]
        assert sum(weights) == len(clusters.unique())
        expected = evaluate(logits[rows], targets[rows], ks=())
        assert float(found.summary["f1"][resample]) == pytest.approx(expected.summary["f1"], abs=1e-6)
        assert found.classes[resample].tolist() == pytest.approx(expected.per_class["f1"].tolist(), abs=1e-6)


def test_numbers_of_clusters_pairs_and_strata() -> None:
    members = numbered(torch.tensor([[40, 10], [40, 20], [30, 10], [10, 40]]))
    assert members.tolist() == [[0, 1], [0, 2], [3, 1], [1, 0]]
    assert pair_numbers(members).tolist() == [0, 1, 2, 0]
    labels = np.array([0, 0, 1, 1, 2, 2])
    pairs = one_of_each_other(labels, Draws(0), num_classes=3)
    numbers = numbered(torch.from_numpy(pairs))
    strata = common_labels(numbers, union(labels, pairs, 3))
    by_digit = {int(digit): int(strata[n]) for digit, n in zip(pairs.ravel(), numbers.flatten(), strict=True)}
    assert [by_digit[digit] == by_digit[other] for digit, other in ((0, 1), (2, 3), (1, 2), (3, 4))] == [
        True,
        True,
        False,
        False,
    ]


def test_members_are_drawn_within_their_stratum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "MAX_GROUPS", 12)
    strata = torch.arange(60) % 3
    members = torch.stack([torch.arange(60), torch.arange(60).roll(-1)], dim=1)
    resampler = Resampler(60, CLASSES, num_resamples=20, clusters=members, strata=strata)
    assert resampler.weights.shape == (20, 12)
    for stratum in range(3):
        groups = resampler.group[:, 0][strata == stratum].unique()
        assert len(groups) == 4
        assert set(resampler.weights[:, groups].sum(dim=1).tolist()) == {4.0}


def dyadic_set(seed: int, *, own: float) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of 20 fresh digits of each class, and two methods' logits of them, (N, C) each.

    A digit's difficulty has the standard deviation `own` for both methods and for each by itself.
    """
    generator = torch.Generator().manual_seed(seed)
    labels = np.repeat(np.arange(CLASSES), 20)
    pairs = one_of_each_other(labels, Draws(seed), num_classes=CLASSES)
    members, targets = torch.from_numpy(pairs), union(labels, pairs, CLASSES).float()
    shared = torch.randn(len(labels), generator=generator) * own
    logits = []
    for _ in range(2):
        difficulty = shared + torch.randn(len(labels), generator=generator) * own
        easy = targets.scatter(1, torch.from_numpy(labels[pairs]), difficulty[members])
        noise = torch.randn(targets.shape, generator=generator)
        logits.append(2.0 * targets - 1.0 + easy + noise)
    return members, targets.to(torch.int8), torch.stack(logits)


def difference_and_half_width(seed: int, *, own: float, by_digit: bool) -> tuple[Tensor, Tensor]:
    """Of exact matches and macro F1; half the interval's width is 1.96 standard deviations."""
    members, targets, logits = dyadic_set(seed, own=own)
    members = numbered(members)
    clusters = [(None, None)]
    if by_digit:
        clusters = [(pair_numbers(members), None), (members, common_labels(members, targets))]
    evaluations = [Evaluation(each, targets, ks=()) for each in logits]
    names = ("f1", "exact_match")
    one, two = ([e.report().summary[name] for name in names] for e in evaluations)
    moved = []
    for cluster, strata in clusters:
        resampler = Resampler(*targets.shape, num_resamples=300, seed=seed, clusters=cluster, strata=strata)
        first, second = (resampler.resample(e).summary for e in evaluations)
        moved.append(torch.stack([second[name] - first[name] for name in names], dim=1))
    pairs = PairedDifferences()
    point = torch.tensor(two) - torch.tensor(one)
    pairs.add(point, moved[0], by_member=moved[1] if by_digit else None)
    low, high = pairs.interval()
    return point, (high - low) / 2


@pytest.mark.parametrize("own", [0.0, 1.0])
def test_intervals_by_digit_are_as_wide_as_fresh_digits_say(own: float) -> None:
    points, by_digit = zip(
        *(difference_and_half_width(s, own=own, by_digit=True) for s in range(60)), strict=True
    )
    fresh = [dyadic_set(seed, own=own)[1:] for seed in range(100, 500)]
    differences = torch.stack(
        list(points)
        + [torch.tensor([_f1(b, t) - _f1(a, t), _exact(b, t) - _exact(a, t)]) for t, (a, b) in fresh]
    )
    true = 1.96 * differences.std(dim=0)
    ratio = torch.stack(by_digit).mean(dim=0) / true
    assert ratio.tolist() == pytest.approx([1.0, 1.0], abs=0.15)
    by_row = torch.stack([difference_and_half_width(s, own=own, by_digit=False)[1] for s in range(20)])
    if own:
        assert (by_row.mean(dim=0) / true < 0.8).all()  # what resampled rows leave out


def _f1(logits: Tensor, targets: Tensor) -> float:
    found, labels = logits >= 0, targets == 1
    return float((2 * (found & labels).sum(0) / (found.sum(0) + labels.sum(0))).mean())


def _exact(logits: Tensor, targets: Tensor) -> float:
    return float(((logits >= 0) == (targets == 1)).all(dim=1).float().mean())
