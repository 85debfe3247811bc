"""Samples that accelerate repeats to fill the processes' last batches: each of them counts once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from accelerate import skip_first_batches
from accelerate.data_loader import prepare_data_loader
from small_trainers import NUM_CLASSES, Network, make_criterion, make_data
from torch.utils.data import DataLoader, SubsetRandomSampler

from forked import run_ranks
from tailmask.integrations.repeated_samples import loss_of_all, num_own_samples


def own_samples(loader: DataLoader, *, num_processes: int, skip: int = 0, **options) -> list[int]:
    """What the processes count of a loader, all of them together, sorted."""
    found = []
    for process_index in range(num_processes):
        prepared = prepare_data_loader(
            loader, num_processes=num_processes, process_index=process_index, put_on_device=False, **options
        )
        with torch.no_grad():
            for batch in skip_first_batches(prepared, skip) if skip else prepared:
                found += batch[: num_own_samples(len(batch))].tolist()
    return sorted(found)


@pytest.mark.parametrize("options", [{}, {"even_batches": False}, {"split_batches": True}])
@pytest.mark.parametrize("num_processes", [1, 2, 4])
@pytest.mark.parametrize("num_samples", [1, 3, 4, 7, 8, 9, 16, 21, 31, 32])
def test_each_sample_is_counted_once(num_samples, num_processes, options):
    loader = DataLoader(range(num_samples), batch_size=4)
    assert own_samples(loader, num_processes=num_processes, **options) == list(range(num_samples))


def test_batches_that_are_dropped_or_skipped_are_not_counted():
    loader = DataLoader(range(21), batch_size=4, drop_last=True)
    assert own_samples(loader, num_processes=2) == list(range(16))
    loader = DataLoader(range(21), batch_size=4)
    assert own_samples(loader, num_processes=2, skip=1) == list(range(8, 21))


def test_a_sampler_may_draw_less_than_the_data_set_has():
    loader = DataLoader(range(100), batch_size=4, sampler=SubsetRandomSampler(range(13)))
    assert own_samples(loader, num_processes=1) == list(range(13))
    in_order = DataLoader(range(100), batch_size=4, sampler=range(13))
    assert own_samples(in_order, num_processes=2) == list(range(13))


def test_all_of_a_batch_counts_where_the_batches_are_the_users_own():
    loader = DataLoader(range(5), batch_sampler=[[0, 1, 2], [3, 4]])
    assert own_samples(loader, num_processes=2, even_batches=True) == list(range(5))


def test_outside_of_a_loader_all_samples_are_counted():
    assert num_own_samples(5) == 5


@pytest.mark.parametrize("num_own", [0, 3, 8])
@pytest.mark.parametrize("reduction", ["mean", "batchmean", "sum"])
def test_repeated_samples_stay_in_the_loss(reduction, num_own):
    inputs, targets = make_data(8)
    targets[2:5, 1] = -1.0
    whole = make_criterion(reduction=reduction, expected=True, initial_ratio="mean")
    parts = make_criterion(reduction=reduction, expected=True, initial_ratio="mean")
    network = Network()
    logits = network(inputs)["logits"]
    expected, found = whole(logits, targets), loss_of_all(parts, logits, targets, num_own=num_own)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        *(torch.autograd.grad(loss, logits, retain_graph=True) for loss in (found, expected))
    )
    own = make_criterion(expected=True)
    own.update(logits[:num_own], targets[:num_own])
    assert parts.counts.equal(own.counts)
    assert parts.statistics == "training"


@pytest.mark.parametrize("statistics", ["training", "validation"])
def test_two_processes_have_the_counts_of_one(tmp_path, statistics):
    script = Path(__file__).with_name("transformers_padding_ddp.py")
    run_ranks(script, tmp_path, tmp_path, statistics)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["counts"] == [result["num_samples"] * NUM_CLASSES] * 3
    # The network does not learn, so one process sees the same outputs.
    inputs, targets = make_data(result["num_samples"])
    criterion = make_criterion(adapt="prevalence", warmup=0)
    for _ in range(3):
        criterion.update(Network()(inputs)["logits"], targets)
        criterion.step()
    assert result["ratios"] == pytest.approx(criterion.target_ratio.tolist(), rel=1e-5)
