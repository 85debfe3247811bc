"""Labels from matrices, tags and class files, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from tailmask._util.messages import UserError
from tailmask.data.readers.table import label_columns as module
from tailmask.data.readers.table.label_columns import (
    Labels,
    check_classes,
    labels_from_csr,
    labels_from_matrix,
    labels_from_pairs,
    labels_from_tags,
    read_classes,
)


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int64, np.float32])
def test_zeros_and_ones_of_any_type(kind: type) -> None:
    assert labels_from_matrix(np.eye(3, dtype=kind), "abc", "Y").targets.tolist() == np.eye(3).tolist()


def test_unknown_is_minus_one_or_nan() -> None:
    values = np.array([[1.0, np.nan], [-1.0, 0.0]])
    assert labels_from_matrix(values, "ab", "Y").targets.tolist() == [[1, -1], [-1, 0]]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (np.array([[1, 0], [0, 2]]), "Y has 2 for class 'b' in row 1: labels are 0 or 1"),
        (np.array([[0.5, 0]]), "Y has 0.5 for class 'a' in row 0"),
        (np.array([[np.inf, 0]]), "Y has inf for class 'a'"),
        (np.array([[1, -1]]), "Y has −1 but no 0: −1 means unknown"),
        (np.array([[1, np.nan]]), "Y has empty cells or NaN but no 0: they mean unknown"),
        (np.array([[1, 0, 1]]), r"must have shape \(N, 2\), got \(1, 3\)"),
        (np.array([["1", "0"]]), "must hold numbers"),
    ],
)
def test_other_labels_are_refused(values: np.ndarray, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        labels_from_matrix(values, "ab", "Y")


def test_tags_give_classes_in_order() -> None:
    labels = labels_from_tags([["9", "10"], None, ["9"], []], "f")
    assert labels.classes == ("9", "10")
    assert labels.targets.tolist() == [[1, 1], [-1, -1], [1, 0], [0, 0]]
    assert labels.open
    assert not labels.single


def test_tags_may_be_names_or_numbers_of_known_classes() -> None:
    named = labels_from_tags([["dog"], ["cat", "dog"]], "f", classes=["cat", "dog", "cow"])
    numbered = labels_from_tags([["1"], ["0", "1"]], "f", classes=["cat", "dog", "cow"])
    assert named.targets.tolist() == numbered.targets.tolist() == [[0, 1, 0], [1, 1, 0]]
    assert not named.open
    for tags in (["3"], ["bird"], ["-1"]):
        with pytest.raises(UserError, match="not among the 3 classes"):
            labels_from_tags([tags], "f", classes=["cat", "dog", "cow"])


def test_sparse_labels() -> None:
    matrix = csr_array(np.array([[1, 0], [0, 0]], dtype=np.int8))
    assert labels_from_csr(matrix, "ab", "Y").targets.tolist() == [[1, 0], [0, 0]]
    with pytest.raises(UserError, match="has the label 2: a sparse matrix of labels holds ones only"):
        labels_from_csr(csr_array(np.array([[2, 0]])), "ab", "Y")
    with pytest.raises(UserError, match=r"must have shape \(N, 3\)"):
        labels_from_csr(matrix, "abc", "Y")


def test_many_labels_are_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, columns, shape = np.array([0, 2, 2, 2]), np.array([1, 0, 1, 1]), (3, 2)
    dense = labels_from_pairs(rows, columns, shape)
    monkeypatch.setattr(module, "DENSE_LIMIT", 5)
    sparse = labels_from_pairs(rows, columns, shape)
    assert sparse.toarray().tolist() == dense.tolist() == [[0, 1], [0, 0], [1, 1]]
    labels = Labels(("a", "b"), sparse).aligned(["b", "c", "a"])
    assert labels.targets.toarray().tolist() == [[1, 0, 0], [0, 0, 0], [1, 0, 1]]
    assert labels.take(np.array([2])).toarray().tolist() == [[1, 0, 1]]
    with pytest.raises(UserError, match="too large for unknown labels"):
        labels_from_tags([["a"], None, ["b"]], "f")


def test_aligned_columns() -> None:
    labels = Labels(("b", "a"), torch.tensor([[1, -1], [-1, -1]], dtype=torch.int8))
    assert labels.aligned(["a", "b", "c"]).targets.tolist() == [[-1, 1, 0], [-1, -1, -1]]


def test_single_labels() -> None:
    assert Labels(("a", "b"), torch.eye(2, dtype=torch.int8)).single
    assert not Labels(("a", "b"), torch.tensor([[1, -1]], dtype=torch.int8)).single
    assert not Labels(("a", "b"), torch.tensor([[0, 0]], dtype=torch.int8)).single
    assert Labels(("a", "b"), torch.tensor([[1, 0], [-1, -1], [0, 1]], dtype=torch.int8)).single
    assert not Labels(("a", "b"), torch.tensor([[1, 0], [-1, -1], [1, 1]], dtype=torch.int8)).single
    assert Labels(("a", "b"), csr_array(np.eye(2, dtype=np.int8))).single


def test_class_names(tmp_path: Path) -> None:
    assert check_classes(["<script>", "", "naïve café"], "f") == ("<script>", "", "naïve café")
    with pytest.raises(UserError, match="f names a class twice: cat"):
        check_classes(["cat", "dog", "cat"], "f")
    with pytest.raises(UserError, match="no classes"):
        check_classes([], "f")
    path = tmp_path / "classes.txt"
    path.write_text("fire hydrant 0\nstop sign 1\n\ncat 2")
    assert read_classes(path) == ("fire hydrant", "stop sign", "cat")
    path.write_text("cat\ndog 5\n")
    assert read_classes(path) == ("cat", "dog 5")
    for names in (("Stage 0", "Stage 1", "Stage 2"), ("phase 0",), ("0", "1"), ("0",)):  # not their numbers
        path.write_text("\n".join(names))
        assert read_classes(path) == names
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot be read"):
        read_classes(path)
