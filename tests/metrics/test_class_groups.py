from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tailmask.metrics import class_groups


def test_ranks_by_training_counts():
    groups = class_groups(torch.tensor([5, 40, 1, 30, 7, 2]), rarest=(1, 3), frequent=(2,))
    assert {name: index.tolist() for name, index in groups.items()} == {
        "rarest_1": [2],
        "rarest_3": [2, 5, 0],
        "frequent_2": [1, 3],
        "head": [1, 3],
        "medium": [0, 4],
        "tail": [2, 5],
    }


def test_ties_go_by_index():
    groups = class_groups(torch.full((5,), 9), rarest=(2,), frequent=(2,))
    assert groups["rarest_2"].tolist() == [0, 1]
    assert groups["frequent_2"].tolist() == [4, 3]


def test_the_tail_of_ten_classes_is_the_papers_three_rarest():
    counts = torch.tensor([5923, 3550, 2128, 1276, 764, 458, 274, 164, 98, 59])
    groups = class_groups(counts, rarest=(3,))
    assert groups["tail"].tolist() == groups["rarest_3"].tolist() == [9, 8, 7]


@pytest.mark.parametrize(
    ("num_classes", "sizes"),
    [(1, {"medium": 1}), (2, {"head": 1, "tail": 1}), (3, {"head": 1, "medium": 1, "tail": 1})],
)
def test_few_classes(num_classes, sizes):
    groups = class_groups(torch.arange(num_classes))
    assert {name: len(index) for name, index in groups.items()} == sizes


@given(st.lists(st.integers(0, 10**6), min_size=3, max_size=60))
def test_groups_split_all_classes_and_ignore_the_scale(counts):
    counts = torch.tensor(counts)
    groups = class_groups(counts)
    members = torch.cat(list(groups.values()))
    assert sorted(members.tolist()) == list(range(len(counts)))
    assert len(groups["head"]) == len(groups["tail"])
    assert abs(len(groups["head"]) - len(groups["medium"])) <= 1
    assert counts[groups["tail"]].max() <= counts[groups["medium"]].min()
    assert counts[groups["medium"]].max() <= counts[groups["head"]].min()
    scaled = class_groups(counts * 3)
    assert all(torch.equal(scaled[name], index) for name, index in groups.items())


@pytest.mark.parametrize("size", [0, 4])
@pytest.mark.parametrize("name", ["rarest", "frequent"])
def test_impossible_sizes_are_refused(name, size):
    with pytest.raises(ValueError, match=f"{name} must lie between 1 and 3"):
        class_groups(torch.tensor([1, 2, 3]), **{name: (size,)})


def test_counts_of_both_labels_are_refused():
    with pytest.raises(ValueError, match=r"\(C,\)"):
        class_groups(torch.ones(2, 3))
