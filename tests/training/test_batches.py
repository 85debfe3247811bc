"""Batches: every sample once, ranks that share them, augmentation that depends on nothing but the seed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.data.dataset import Split
from tailmask.training.batches import Batches, Shard, Workers, loader
from tailmask.training.split_outputs import predict, validation_metrics


@dataclass(frozen=True)
class Noisy:
    """Inputs that show which sample they are and what was drawn for it."""

    number: int
    on_disk: bool = False

    def __len__(self) -> int:
        return self.number

    @property
    def shape(self) -> tuple[int, ...]:
        return (1, 2, 2)

    def batch(self, index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        noise = 0 if generator is None else torch.rand(len(index), 1, 1, 1, generator=generator)
        return (index.float().view(-1, 1, 1, 1) + noise).expand(-1, 1, 2, 2)


def make(number: int, *, on_disk: bool = False) -> Split:
    return Split(Noisy(number, on_disk), torch.ones(number, 3, dtype=torch.int8))


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 5))
def test_ranks_share_every_batch_and_count_each_sample_once(
    number: int, batch_size: int, world_size: int
) -> None:
    split, order = make(number), torch.randperm(number)
    ranks = [
        list(Batches(split, order, batch_size=batch_size, shard=Shard(rank, world_size)))
        for rank in range(world_size)
    ]
    assert len({len(batches) for batches in ranks}) == 1
    seen = []
    for step, parts in enumerate(zip(*ranks, strict=True)):
        assert len({len(part.targets) for part in parts}) == 1
        known = [
            row
            for part in parts
            for row, target in zip(part.inputs[:, 0, 0, 0], part.targets, strict=True)
            if target[0] >= 0
        ]
        expected = order[step * batch_size : (step + 1) * batch_size]
        assert sorted(int(row) for row in known) == sorted(expected.tolist())
        seen += known
        # Mean losses of the ranks, averaged and scaled, are the batch's mean.
        summed = [part.targets.clamp(min=0)[:, 0].sum() / len(part.targets) * part.scale for part in parts]
        assert sum(summed) / world_size == pytest.approx(1.0)
    assert len(seen) == number


def test_augmentation_depends_on_seed_epoch_batch_and_rank_alone() -> None:
    def batches(seed: int = 0, epoch: int = 0, rank: int = 0) -> Batches:
        shard = Shard(rank, 2)
        return Batches(make(8), torch.arange(8), batch_size=4, purpose=(seed, "augment", epoch), shard=shard)

    second = batches()[1].inputs
    assert second.equal(list(batches())[1].inputs)  # whether or not the first was made before
    for other in (batches(seed=1), batches(epoch=1)):
        assert not second.equal(other[1].inputs)
    assert not (second % 1).equal(batches(rank=1)[1].inputs % 1)


def test_files_on_disk_go_through_workers_with_the_same_result() -> None:
    arguments = {"batch_size": 4, "purpose": (0, "augment", 0)}
    in_memory = Batches(make(10), torch.arange(10), **arguments)
    assert loader(in_memory) is in_memory
    workers = loader(Batches(make(10, on_disk=True), torch.arange(10), **arguments))
    assert isinstance(workers, Workers)
    assert len(workers) == len(in_memory)
    for ours, theirs in zip(in_memory, workers, strict=True):
        assert ours.inputs.equal(theirs.inputs)
        assert ours.targets.equal(theirs.targets)
        assert ours.scale == theirs.scale


class Broken(Noisy):
    def batch(self, index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        raise UserError(f"cat.png, image {int(index[0])}, is no image: remove it")


def test_a_mistake_found_by_a_worker_arrives_as_its_sentence() -> None:
    split = Split(Broken(10, on_disk=True), torch.ones(10, 3, dtype=torch.int8))
    with pytest.raises(UserError) as caught:
        list(loader(Batches(split, torch.arange(4, 10), batch_size=5)))
    assert str(caught.value) == "cat.png, image 4, is no image: remove it"


def test_images_come_in_the_layout_that_convolutions_want() -> None:
    split = Split(torch.rand(4, 3, 5, 5), torch.ones(4, 2, dtype=torch.int8))
    (batch,) = Batches(split, torch.arange(4), batch_size=4)
    assert batch.inputs.is_contiguous(memory_format=torch.channels_last)


def test_prediction_covers_the_split_in_order_and_restores_the_mode() -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.9), torch.nn.Linear(4, 3))
    split = make(1100)
    logits = predict(network, split)
    expected = network.eval()(split.batch(torch.arange(1100))[0])
    torch.testing.assert_close(logits, expected)
    network.train()
    predict(network, split)
    assert network.training


def test_validation_metrics_leave_unknown_labels_out() -> None:
    logits = torch.tensor([[3.0, -3.0], [-3.0, 3.0], [3.0, 3.0]])
    targets = torch.tensor([[1, 0], [0, 1], [1, -1]])
    assert validation_metrics(logits, targets, threshold=0.5, single_label=False) == {
        "f1": 1.0,
        "ap": 1.0,
        "exact_match": 1.0,
    }
    single = validation_metrics(
        torch.tensor([[-1.0, -2.0], [-3.0, -2.0]]), torch.eye(2), threshold=0.5, single_label=True
    )
    assert single["exact_match"] == 1.0


@given(st.integers(2, 60), st.integers(2, 12), st.integers(1, 4))
def test_a_last_batch_that_joins_another_leaves_every_sample_in_one(
    number: int, batch_size: int, world_size: int
) -> None:
    order = torch.randperm(number)
    batches = Batches(make(number), order, batch_size=batch_size, shard=Shard(0, world_size))
    before, rows = len(batches), batches.num_last_rows
    assert rows == len(batches[before - 1].targets)
    batches.join_last()
    assert len(batches) == max(1, before - 1)
    if world_size == 1:
        seen = torch.cat([batch.inputs[:, 0, 0, 0] for batch in batches])
        assert seen.long().equal(order)
        assert [len(batch.targets) for batch in batches][:-1] == [batch_size] * (len(batches) - 1)
