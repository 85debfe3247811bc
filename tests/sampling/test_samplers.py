"""Undersampling and class-aware sampling, against plain loops."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch.utils.data import DataLoader, TensorDataset

from tailmask import PartialLabelMasking
from tailmask.sampling import ClassAwareSampler, EpochSampler, UndersamplingSampler

BUILDERS = {
    "undersampling": lambda targets, **options: UndersamplingSampler(targets, 5, **options),
    "class-aware": ClassAwareSampler,
}


def multi_label(num_samples: int = 200, num_classes: int = 6, seed: int = 0) -> torch.Tensor:
    """Targets with a long tail, unknown labels, samples without labels, and an empty class, the last."""
    random = np.random.default_rng(seed)
    shares = 0.5 * 0.5 ** np.arange(num_classes)
    shares[-1] = 0
    targets = (random.random((num_samples, num_classes)) < shares).astype(np.int8)
    targets[random.random(targets.shape) < 0.05] = -1
    return torch.from_numpy(targets)


def count_by_hand(drawn: list[int], targets: torch.Tensor) -> list[list[int]]:
    counts = [[0] * targets.shape[1] for _ in range(2)]
    for sample in drawn:
        for index, label in enumerate(targets[sample].tolist()):
            if label in (0, 1):
                counts[label][index] += 1
    return counts


@given(
    hnp.arrays(
        np.int8, st.tuples(st.integers(1, 30), st.integers(1, 5)), elements=st.sampled_from([0, 1, -1])
    ),
    st.integers(1, 8),
    st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_undersampling_is_the_union_of_up_to_s_of_each_class(
    targets: np.ndarray, limit: int, seed: int
) -> None:
    if not (targets == 1).any():
        return
    sampler = UndersamplingSampler(targets, limit, seed=seed)
    drawn = list(sampler)
    assert len(drawn) == len(set(drawn)) == len(sampler)
    sizes = (targets == 1).sum(axis=0)
    assert max(min(int(size), limit) for size in sizes) <= len(drawn)
    assert len(drawn) <= sum(min(int(size), limit) for size in sizes)
    for index, size in enumerate(sizes):
        assert (targets[drawn, index] == 1).sum() >= min(size, limit)
    assert (targets[drawn] == 1).any(axis=1).all()  # a sample without a label is never drawn
    assert sampler.class_counts().tolist() == count_by_hand(drawn, torch.from_numpy(targets))


def test_undersampling_draws_each_member_of_a_class_equally_often() -> None:
    sampler = UndersamplingSampler(torch.tensor([0] * 50 + [1] * 3), 10)
    times: Counter[int] = Counter()
    for epoch in range(2000):
        sampler.set_epoch(epoch)
        drawn = list(sampler)
        assert len(drawn) == 13
        times.update(drawn)
    assert [times[sample] for sample in (50, 51, 52)] == [2000] * 3
    # 400 ± 18 of 2000 each, were they fair
    assert all(400 - 5 * 18 < times[sample] < 400 + 5 * 18 for sample in range(50))


@pytest.mark.parametrize("make", [lambda y: UndersamplingSampler(y, 10), ClassAwareSampler])
def test_an_epoch_that_comes_twice_is_warned_of(make) -> None:
    sampler = make(torch.tensor([0] * 50 + [1] * 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in (0, 1, 1):  # as often as it is announced
            sampler.set_epoch(epoch)
            list(sampler)
    with pytest.warns(UserWarning, match=r"epoch 1 .* second time.*call set_epoch"):
        list(sampler)


def test_an_unchanged_epoch_keeps_its_draw() -> None:
    sampler = UndersamplingSampler(torch.tensor([0] * 50 + [1] * 3), 10)
    drawn = sampler.draw()
    sampler.set_epoch(0)
    assert sampler.draw() is drawn


def test_undersampled_classes_are_drawn_independently() -> None:
    # All samples have both labels: each class draws 10 of 100, and by chance one in ten is drawn twice.
    sampler = UndersamplingSampler(torch.ones(100, 2), 10)
    lengths = []
    for epoch in range(300):
        sampler.set_epoch(epoch)
        lengths.append(len(sampler))
    assert np.mean(lengths) == pytest.approx(19.0, abs=0.3)


def test_undersampling_reads_in_random_order() -> None:
    sampler = UndersamplingSampler(torch.zeros(1000, dtype=torch.int64), 1000)
    order = sampler.indices()
    assert sorted(order.tolist()) == list(range(1000))
    assert abs(np.corrcoef(order.numpy(), np.arange(1000))[0, 1]) < 0.15


def test_class_aware_rounds_hold_each_class_once() -> None:
    classes = torch.tensor([0] * 70 + [2] * 7 + [3] * 3)  # no class 1
    sampler = ClassAwareSampler(classes, epoch_length=200)
    drawn = list(sampler)
    assert len(drawn) == len(sampler) == 200
    rounds = [classes[drawn[start : start + 3]].tolist() for start in range(0, 198, 3)]
    assert all(sorted(round_) == [0, 2, 3] for round_ in rounds)
    assert len({tuple(round_) for round_ in rounds}) == 6  # in all orders
    for index, size in ((0, 70), (2, 7), (3, 3)):
        own = [sample for sample in drawn if classes[sample] == index]
        for start in range(0, len(own), size):  # none again before all have come
            cycle = own[start : start + size]
            assert len(set(cycle)) == len(cycle)
    cycles = [tuple(sample for sample in drawn if classes[sample] == 3)[i : i + 3] for i in range(0, 60, 3)]
    assert len(set(cycles)) > 1  # new order in each cycle


def test_class_aware_epoch_is_as_long_as_the_data() -> None:
    targets = multi_label()
    sampler = ClassAwareSampler(targets)
    drawn = list(sampler)
    assert len(drawn) == len(targets)
    assert (targets[drawn] == 1).any(dim=1).all()
    assert sampler.class_counts().tolist() == count_by_hand(drawn, targets)
    # every class that has samples is drawn at least in its turn, 200 / 5 times
    assert (sampler.class_counts()[1, :5] >= 40).all()


@pytest.mark.parametrize("name", BUILDERS)
def test_epochs_differ_and_come_back(name: str) -> None:
    sampler = BUILDERS[name](multi_label(), seed=3)
    draws = []
    for epoch in (0, 1, 0):
        sampler.set_epoch(epoch)
        draws.append(list(sampler))
        assert sampler.indices().tolist() == draws[-1]
    assert draws[0] == draws[2] != draws[1]
    assert draws[0] != list(BUILDERS[name](multi_label(), seed=4))
    assert draws[0] == list(BUILDERS[name](multi_label(), seed=3))


def test_draws_are_the_same_on_every_machine() -> None:
    targets = torch.tensor([0, 0, 0, 0, 0, 0, 0, 1, 1, 2])
    under = UndersamplingSampler(targets, 3, seed=7)
    under.set_epoch(2)
    aware = ClassAwareSampler(targets, seed=7)
    aware.set_epoch(2)
    assert list(under) == [8, 0, 4, 6, 9, 7]
    assert list(aware) == [6, 9, 8, 9, 4, 7, 0, 8, 9, 7]


@pytest.mark.parametrize("name", BUILDERS)
def test_kinds_of_targets(name: str) -> None:
    targets = multi_label().clamp(min=0)
    expected = list(BUILDERS[name](targets))
    floats = targets.float()
    soft = floats * 0.3 + 0.35
    kinds = [
        targets.numpy(),
        targets.tolist(),
        floats,
        floats.bfloat16(),
        targets.bool(),
        soft,
        scipy.sparse.csr_array(targets.numpy()),
        scipy.sparse.coo_matrix(targets.numpy()),
    ]
    for kind in kinds:
        assert list(BUILDERS[name](kind)) == expected
    classes = torch.arange(60) % 7
    one_hot = torch.nn.functional.one_hot(classes, 7)
    assert list(BUILDERS[name](classes)) == list(BUILDERS[name](one_hot))


@pytest.mark.parametrize("name", BUILDERS)
def test_unknown_labels_count_nowhere(name: str) -> None:
    targets = multi_label()
    assert (targets == -1).any()
    nans = targets.float().masked_fill(targets == -1, torch.nan)
    stored = scipy.sparse.csr_array(targets.numpy())
    for kind in (targets, nans, stored):
        sampler = BUILDERS[name](kind)
        assert sampler.class_counts().tolist() == count_by_hand(sampler.indices().tolist(), targets)
    classes = torch.tensor([0, 0, 1, -1, -1])
    sampler = BUILDERS[name](classes, num_classes=4)
    assert not {3, 4} & set(sampler)
    assert sampler.class_counts().shape == (2, 4)
    assert sampler.class_counts().sum(dim=0).tolist() == [len(sampler)] * 4


@pytest.mark.parametrize("num_replicas", [1, 2, 3, 7])
@pytest.mark.parametrize("name", BUILDERS)
def test_ranks_split_one_draw(name: str, num_replicas: int) -> None:
    targets = multi_label(199)
    whole = BUILDERS[name](targets)
    ranks = [BUILDERS[name](targets, num_replicas=num_replicas, rank=rank) for rank in range(num_replicas)]
    for epoch in (0, 5):
        for sampler in (whole, *ranks):
            sampler.set_epoch(epoch)
        assert len({len(sampler) for sampler in ranks}) == 1
        assert all(len(sampler.indices()) == len(sampler) for sampler in ranks)
        met = torch.stack([sampler.indices() for sampler in ranks], dim=1).flatten().tolist()
        assert met[: len(whole)] == whole.indices().tolist()
        filled_up = met[len(whole) :]
        assert filled_up == whole.indices().tolist()[: len(filled_up)]
        assert len(filled_up) < num_replicas
        for sampler in ranks:
            assert torch.equal(sampler.class_counts(), whole.class_counts())


def test_more_ranks_than_samples() -> None:
    ranks = [UndersamplingSampler([0, 1], 1, num_replicas=5, rank=rank) for rank in range(5)]
    assert [len(sampler.indices()) for sampler in ranks] == [1] * 5
    assert {index for sampler in ranks for index in sampler} == {0, 1}


def test_replicas_come_from_the_process_group(tmp_path: Path) -> None:
    new = multiprocessing.get_context("spawn")  # forked ranks sometimes wait forever
    ranks = [new.Process(target=save_draw_of_rank, args=(rank, tmp_path)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
        rank.kill()
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0]
    parts = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    assert sorted(chain(*parts)) == sorted(ClassAwareSampler(torch.arange(40) % 4))


def save_draw_of_rank(rank: int, folder: Path) -> None:
    sampler = ClassAwareSampler(torch.arange(40) % 4)  # made before the process group
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    torch.save(list(sampler), folder / f"{rank}.pt")
    torch.distributed.barrier()  # a rank that leaves while the other still connects would fail it
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("name", BUILDERS)
def test_in_a_data_loader(name: str) -> None:
    targets = multi_label()
    sampler = BUILDERS[name](targets)
    data = TensorDataset(torch.arange(len(targets)), targets)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        assert torch.cat([index for index, _ in loader]).tolist() == sampler.indices().tolist()
        assert len(loader) == -(-len(sampler) // 16)


def test_plm_is_told_the_ratio_of_what_is_drawn() -> None:
    targets = multi_label()[:, :5].clamp(min=0)
    sampler = UndersamplingSampler(targets, 5)
    negatives, positives = sampler.class_counts()
    criterion = PartialLabelMasking.from_counts(positives, negatives)
    drawn = targets[sampler.indices()]
    assert torch.allclose(criterion.class_ratio, drawn.sum(dim=0) / (1 - drawn).sum(dim=0))


@pytest.mark.parametrize("name", BUILDERS)
def test_an_epoch_of_coco_is_drawn_in_well_under_a_second(name: str) -> None:
    random = np.random.default_rng(0)
    shares = 0.27 * np.exp(-np.linspace(0, 5.8, 80))
    targets = (random.random((82783, 80)) < shares).astype(np.int8)
    sampler: EpochSampler
    sampler = UndersamplingSampler(targets, 1000) if name == "undersampling" else ClassAwareSampler(targets)
    start = time.perf_counter()
    sampler.set_epoch(1)
    sampler.indices()
    sampler.class_counts()
    assert time.perf_counter() - start < 0.8  # 0.03 s on two cores


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="no positive label"):
        ClassAwareSampler(torch.zeros(5, 3))
    with pytest.raises(ValueError, match="no positive label"):
        ClassAwareSampler(torch.zeros(0, 3))
    with pytest.raises(ValueError, match=r"shape \(N, C\) or \(N,\), got \(2, 2, 2\)"):
        ClassAwareSampler(torch.ones(2, 2, 2))
    with pytest.raises(ValueError, match=r"got 3: .*class indices as integers"):
        ClassAwareSampler(torch.tensor([[1], [3]]))
    with pytest.raises(ValueError, match="got -2"):
        ClassAwareSampler(scipy.sparse.csr_array([[1, -2]]))
    with pytest.raises(ValueError, match="class indices and must be integers"):
        ClassAwareSampler(torch.tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="from 0 to 1, or -1 if unknown, got 0 to 2"):
        ClassAwareSampler([0, 1, 2], num_classes=2)
    with pytest.raises(ValueError, match="got -2 to 1"):
        ClassAwareSampler([0, 1, -2])
    with pytest.raises(ValueError, match="samples_per_class"):
        UndersamplingSampler([0, 1], 0)
    with pytest.raises(ValueError, match="epoch_length"):
        ClassAwareSampler([0, 1], epoch_length=0)
    with pytest.raises(ValueError, match="both or neither"):
        ClassAwareSampler([0, 1], rank=0)
    with pytest.raises(ValueError, match="rank must be from 0 to 1, got 2"):
        ClassAwareSampler([0, 1], num_replicas=2, rank=2)
    with pytest.raises(ValueError, match="seed"):
        ClassAwareSampler([0, 1], seed=-1)
