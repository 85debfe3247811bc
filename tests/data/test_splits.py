"""Stratified splits: the share of every label stays the same in every kind of split."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tailmask._util.messages import UserError
from tailmask.data.splits import by_rarest_label, stratified


def long_tailed(number: int, num_classes: int, seed: int = 0) -> torch.Tensor:
    shares = np.geomspace(0.4, 0.004, num_classes)
    labels = np.random.default_rng(seed).random((number, num_classes)) < shares
    return torch.from_numpy(labels.astype(np.int8))


def test_iterative_split_keeps_every_share() -> None:
    targets = long_tailed(3000, 12)
    kept, held_out = stratified(targets, 0.2, seed=0)
    assert sorted([*kept, *held_out]) == list(range(3000))
    assert abs(len(held_out) - 600) < 30
    shares = targets[held_out].sum(dim=0) / targets.sum(dim=0)
    assert (shares - 0.2).abs().max() < 0.08
    assert np.array_equal(held_out, stratified(targets, 0.2, seed=0)[1])
    assert not np.array_equal(held_out, stratified(targets, 0.2, seed=1)[1])


@pytest.mark.parametrize("iterative_rows", [2000, 0])
def test_a_row_is_held_out_wherever_in_the_file_it_stands(
    iterative_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are often sorted, by date or by site: a split that follows their order tests on other data."""
    monkeypatch.setattr("tailmask.data.splits.ITERATIVE_ROWS", iterative_rows)
    targets = long_tailed(2000, 12)
    held_out = [stratified(targets, 0.2, seed)[1] for seed in range(2)]
    for rows in held_out:
        assert np.histogram(rows, bins=10, range=(0, 2000))[0] == pytest.approx([40] * 10, abs=20)
    assert len(np.intersect1d(*held_out)) / 400 == pytest.approx(0.2, abs=0.1)


def test_large_data_are_dealt_out_by_the_rarest_label() -> None:
    targets = long_tailed(150_000, 8)
    kept, held_out = stratified(targets, 0.1, seed=3)
    assert len(held_out) == 15_000
    assert len(kept) == 135_000
    shares = targets[held_out].sum(dim=0) / targets.sum(dim=0)
    assert (shares - 0.1).abs().max() < 0.01
    sparse = stratified(csr_array(targets.numpy()), 0.1, seed=3)[1]
    assert np.array_equal(sparse, held_out)


@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    share=st.sampled_from([0.1, 0.2, 0.33, 0.5]),
    seed=st.integers(0, 99),
)
def test_the_rarest_label_is_met_to_within_one(counts: list[int], share: float, seed: int) -> None:
    """Every row has the first label, and as many of them as counts say have each of the others."""
    rng = np.random.default_rng(seed)
    targets = torch.zeros(200, 1 + len(counts), dtype=torch.int8)
    targets[:, 0] = 1
    for column, count in enumerate(counts, 1):
        targets[rng.permutation(200)[:count], column] = 1
    held_out = by_rarest_label(targets, share, seed)
    assert abs(held_out.sum() - 200 * share) <= 1
    rarest = 1 + int(np.argmin(counts))
    taken = int(targets[torch.from_numpy(held_out), rarest].sum())
    assert abs(taken - min(counts) * share) <= 1


def test_unknown_labels_do_not_count_as_positive() -> None:
    targets = torch.full((100, 2), -1, dtype=torch.int8)
    targets[:, 0] = torch.arange(100) % 2
    held_out = stratified(targets, 0.2, seed=0)[1]
    assert int(targets[held_out, 0].sum()) == len(held_out) // 2


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_shares_are_between_0_and_1(share: float) -> None:
    with pytest.raises(UserError, match="between 0 and 1"):
        stratified(long_tailed(10, 2), share, seed=0)


def test_too_few_samples() -> None:
    with pytest.raises(UserError, match="cannot be split, got"):
        stratified(torch.ones(1, 1, dtype=torch.int8), 0.2, seed=0)
    with pytest.raises(UserError, match="too few"):
        stratified(torch.ones(2, 1, dtype=torch.int8), 0.01, seed=0)


@pytest.mark.parametrize(("positives", "expected"), [(5, (4, 0, 1)), (10, (7, 1, 2)), (20, (14, 2, 4))])
def test_rare_labels_get_what_the_documentation_says(positives: int, expected: tuple[int, ...]) -> None:
    targets = torch.zeros(600, 2, dtype=torch.int8)
    targets[::2, 0] = 1
    targets[:positives, 1] = 1
    for seed in range(3):
        rest, test = (targets[torch.from_numpy(rows)] for rows in stratified(targets, 0.2, seed))
        train, validation = (rest[torch.from_numpy(rows)] for rows in stratified(rest, 0.1 / 0.8, seed))
        assert tuple(int(part[:, 1].sum()) for part in (train, validation, test)) == expected
