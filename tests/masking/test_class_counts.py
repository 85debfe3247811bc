"""Class counts from everything that may hold the training targets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.utils.data import DataLoader, TensorDataset

from tailmask import PartialLabelMasking
from tailmask.masking import count_classes
from tailmask.sampling.class_members import read_members

TARGETS = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, -1], [0, 0, 1]])
COUNTS = torch.tensor([[1, 3, 2], [3, 1, 1]])


@pytest.mark.parametrize(
    "targets",
    [
        TARGETS,
        TARGETS.float(),
        TARGETS.float().masked_fill(TARGETS == -1, torch.nan),
        TARGETS.numpy(),
        TARGETS.tolist(),
        scipy.sparse.csr_array(TARGETS.numpy()),
        scipy.sparse.csc_matrix(TARGETS.numpy()),
        scipy.sparse.coo_array(TARGETS.numpy()),
        DataLoader(TensorDataset(torch.zeros(4, 2), TARGETS), batch_size=3),
        DataLoader([{"input": 0, "labels": row} for row in TARGETS], batch_size=2),
        TARGETS.view(2, 2, 3).movedim(-1, 1),
    ],
    ids=["int", "float", "nan", "numpy", "list", "csr", "csc", "coo", "loader", "dicts", "axis 1"],
)
def test_every_form_gives_the_same_counts(targets):
    assert torch.equal(count_classes(targets), COUNTS)
    criterion = PartialLabelMasking.from_targets(targets)
    torch.testing.assert_close(criterion.class_ratio, COUNTS[1] / COUNTS[0])


def test_class_indices():
    indices = torch.tensor([2, 0, 2, -1])
    expected = torch.tensor([[2, 3, 1], [1, 0, 2]])
    assert torch.equal(count_classes(indices), expected)
    assert torch.equal(count_classes(indices.numpy()), expected)
    assert torch.equal(count_classes(indices, num_classes=4)[:, 3], torch.tensor([3, 0]))
    loader = DataLoader(TensorDataset(torch.zeros(4), indices), batch_size=1)
    assert torch.equal(count_classes(loader), expected)
    assert torch.equal(count_classes(loader, num_classes=3), expected)


def test_class_indices_of_many_classes_need_no_rows():
    indices = torch.arange(2_000_000) % 50_000
    counts = count_classes(indices)  # 100 GB as rows of 0 and 1
    assert (counts == torch.tensor([[2_000_000 - 40], [40]])).all()


@pytest.mark.parametrize(
    "targets",
    [
        TARGETS,
        TARGETS.bool(),
        TARGETS.clamp(min=0).to(torch.uint8),
        torch.tensor([[0.5, 0.49, torch.nan], [1.0, -1.0, 0.0]]).bfloat16(),
        scipy.sparse.csr_array(TARGETS.numpy()),
        torch.tensor([2, 0, 2, -1]),
        torch.tensor([1, 0, 3], dtype=torch.uint8),
    ],
)
def test_counts_are_those_that_the_samplers_read(targets):
    number, positives, unknown = read_members(targets)
    expected = [(number - positives.sizes - unknown.sizes).tolist(), positives.sizes.tolist()]
    assert count_classes(targets).tolist() == expected


@pytest.mark.parametrize(
    ("targets", "num_classes"),
    [
        (torch.tensor([[0, 1], [1, 255]], dtype=torch.uint8), None),  # 255 is not -1
        (torch.tensor([[0, -2]]), None),
        (torch.tensor([0, 1, 1, -100]), None),
        (torch.tensor([0, 1, 1, 7]), 2),
        (torch.tensor([0, 1, 255], dtype=torch.uint8), 2),
        (scipy.sparse.csr_array(np.array([[1, -2]])), None),
    ],
)
def test_what_the_samplers_refuse_is_refused(targets, num_classes):
    with pytest.raises(ValueError, match=r"targets must|class indices must be from 0 to 1"):
        count_classes(targets, num_classes=num_classes)
    with pytest.raises(ValueError, match=r"targets must|class indices must be from 0 to 1"):
        read_members(targets, num_classes)


def test_a_sparse_matrix_stays_as_it_is():
    entries = scipy.sparse.coo_array((np.array([0.25, 0.25]), ([0, 0], [1, 1])), shape=(2, 2))
    assert count_classes(entries).tolist() == [[2, 1], [0, 1]]
    assert entries.nnz == 2


def test_soft_labels_count_by_their_side():
    assert count_classes(torch.tensor([[0.5, 0.49, 0.9]])).tolist() == [[0, 1, 0], [1, 0, 1]]


def test_sparse_ones_of_a_large_set_stay_sparse():
    rows, columns = np.arange(1_000_000), np.zeros(1_000_000, dtype=np.int64)
    targets = scipy.sparse.coo_array((np.ones(1_000_000), (rows, columns)), shape=(1_000_000, 20_000))
    counts = count_classes(targets.tocsr())  # 160 GB if it were made dense
    assert counts[:, 0].tolist() == [0, 1_000_000]
    assert counts[:, 1].tolist() == [1_000_000, 0]


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (torch.tensor([[0, 2]]), "got 2"),
        (torch.tensor([[0.5, -0.5]]), "got -0.5"),
        (torch.tensor([[torch.inf, 0.0]]), "got inf"),
        (scipy.sparse.csr_array(np.array([[0, 3]])), "got 3"),
        (torch.tensor(1), "single number"),
        (torch.tensor([0.0, 1.0]), "must be integers"),
        (torch.tensor([0, 0]), "at least two classes"),
        (DataLoader(TensorDataset(torch.zeros(0, 2))), "at least one batch, got none"),
        (DataLoader([{"text": 1}]), "got the keys text"),
    ],
)
def test_bad_targets(targets, message):
    with pytest.raises(ValueError, match=message):
        count_classes(targets)
