"""Labels of users' files as targets: 1, 0, and −1 for unknown labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError, listing, require

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "Labels",
    "check_classes",
    "in_order",
    "labels_from_csr",
    "labels_from_matrix",
    "labels_from_pairs",
    "labels_from_tags",
    "read_classes",
]

# Targets with at most this many entries are a dense int8 tensor (256 MB), larger ones are CSR.
DENSE_LIMIT = 2**28


@dataclass(frozen=True)
class Labels:
    """Class names, and the targets (N, C) of some samples in the form that `Split` needs."""

    classes: tuple[str, ...]
    targets: Tensor | csr_array
    open: bool = False  # true if the classes are the tags in the file: other files may have more
    notes: tuple[str, ...] = ()  # for the user: how the labels were read

    def __len__(self) -> int:
        return int(self.targets.shape[0])

    def take(self, index: NDArray[np.int64]) -> Tensor | csr_array:
        """The targets of some samples."""
        if isinstance(self.targets, Tensor):
            return self.targets[torch.from_numpy(index)]
        return self.targets[index]

    def aligned(self, classes: Sequence[str]) -> Labels:
        """The same labels with columns for `classes`, which must include its own; new columns are 0."""
        if tuple(classes) == self.classes:
            return self
        position = {name: number for number, name in enumerate(classes)}
        columns = np.array([position[name] for name in self.classes], dtype=np.int64)
        if isinstance(self.targets, Tensor):
            targets = torch.zeros(len(self), len(classes), dtype=torch.int8)
            targets[:, torch.from_numpy(columns)] = self.targets
            targets[(self.targets == -1).all(dim=1)] = -1  # if all labels are unknown, so are the new ones
            return replace(self, classes=tuple(classes), targets=targets)
        coordinates = self.targets.tocoo()
        rows, columns = coordinates.row.astype(np.int64), columns[coordinates.col]
        targets = labels_from_pairs(rows, columns, (len(self), len(classes)))
        return replace(self, classes=tuple(classes), targets=targets)

    @property
    def single(self) -> bool:
        """True if every sample has exactly one positive and no unknown label, or no known label at all."""
        if not isinstance(self.targets, Tensor):
            return bool((self.targets.sum(axis=1) == 1).all())
        pieces = (self.targets[start : start + 2**16] for start in range(0, len(self), 2**16))
        return all(bool((_has_one(rows) | (rows == -1).all(dim=1)).all()) for rows in pieces)


def _has_one(rows: Tensor) -> Tensor:
    return (rows >= 0).all(dim=1) & ((rows == 1).sum(dim=1) == 1)


def check_classes(classes: Sequence[str], where: object) -> tuple[str, ...]:
    """The class names; an error if there are none or two are the same."""
    if not classes:
        raise UserError(f"{where} has no classes, so there is nothing to learn")
    double = [name for name, number in Counter(classes).items() if number > 1]
    if double:
        raise UserError(f"{where} names a class twice: {listing(double)}; rename one of the two")
    for name in classes:
        try:
            name.encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can contain
            raise UserError(f"{where} has a class name that is not text: {name[:40]!r}") from error
    return tuple(classes)


def read_classes(path: Path) -> tuple[str, ...]:
    """Class names from a text file, one per line, with or without a number after the name.

    The number belongs to the name if names would be equal without it: `Stage 0`, `Stage 1`.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the class names in {path} cannot be read: {error}") from error
    names = [line for line in lines if line]
    bare = [name.removesuffix(f" {position}").rstrip() for position, name in enumerate(names)]
    numbered = all(name != full for name, full in zip(bare, names, strict=True))
    if numbered and len(set(bare)) == len(bare) > 1:
        names = bare
    return check_classes(names, path)


def labels_from_matrix(
    values: NDArray[np.generic], classes: Sequence[str], where: object, *, first_row: int = 0
) -> Labels:
    """Labels from a matrix (N, C) of 0, 1 and unknown (−1 or NaN); errors count rows from `first_row`.

    >>> labels_from_matrix(np.array([[1, 0], [0, -1]]), ["a", "b"], "Y").targets
    tensor([[ 1,  0],
            [ 0, -1]], dtype=torch.int8)
    """
    classes = check_classes(classes, where)
    if values.ndim != 2 or values.shape[1] != len(classes):
        raise UserError(f"{where} must have shape (N, {len(classes)}), got {values.shape}")
    if values.dtype.kind not in "biuf":
        raise UserError(f"{where} must hold numbers, 0 and 1, got the type {values.dtype}")
    targets = np.full(values.shape, -2, dtype=np.int8)
    for value in (0, 1, -1):
        targets[values == value] = value
    if values.dtype.kind == "f":
        targets[np.isnan(values)] = -1
    wrong = np.argwhere(targets == -2)
    if len(wrong):
        row, column = wrong[0]
        raise UserError(
            f"{where} has {values[row, column]:g} for class {classes[column]!r} in row {row + first_row}: "
            "labels are 0 or 1, and −1 or NaN if unknown"
        )
    if (targets == -1).any() and not (targets == 0).any():
        what, means = ("−1", "−1 means") if (values == -1).any() else ("empty cells or NaN", "they mean")
        raise UserError(f"{where} has {what} but no 0: {means} unknown; write 0 for absent labels")
    return Labels(classes, torch.from_numpy(targets))


def labels_from_csr(values: csr_array, classes: Sequence[str], where: object) -> Labels:
    """Labels from a CSR matrix (N, C) whose entries are all 1; dense if it is small."""
    classes = check_classes(classes, where)
    if values.shape[1] != len(classes):
        raise UserError(f"{where} must have shape (N, {len(classes)}), got {values.shape}")
    values.eliminate_zeros()
    wrong = values.data[values.data != 1]
    if len(wrong):
        raise UserError(f"{where} has the label {wrong[0]}: a sparse matrix of labels holds ones only")
    coordinates = values.tocoo()
    rows, columns = coordinates.row.astype(np.int64), coordinates.col.astype(np.int64)
    return Labels(classes, labels_from_pairs(rows, columns, values.shape))


def labels_from_tags(
    tags: Sequence[Iterable[str] | None], where: object, *, classes: Sequence[str] | None = None
) -> Labels:
    """Labels from the tags of each sample; the labels of a sample with None are unknown.

    The classes are the tags, sorted, unless `classes` names them. Then tags may also be class numbers.

    >>> labels = labels_from_tags([["b", "a"], [], ["b"]], "the file")
    >>> labels.classes, labels.targets.tolist()
    (('a', 'b'), [[1, 1], [0, 0], [0, 1]])
    """
    found = {tag for row in tags if row is not None for tag in row}
    is_open = classes is None
    classes = check_classes(in_order(found) if classes is None else classes, where)
    code = {name: number for number, name in enumerate(classes)}
    if any(tag not in code for tag in found):
        if all(_is_number(tag) and int(tag) < len(classes) for tag in found):
            code = {tag: int(tag) for tag in found}
        else:
            strange = sorted(tag for tag in found if tag not in code)
            raise UserError(
                f"{where} has labels that are not among the {len(classes)} classes: {listing(strange)}"
            )
    known = [() if row is None else tuple(row) for row in tags]
    rows = np.repeat(np.arange(len(known), dtype=np.int64), [len(row) for row in known])
    columns = np.array([code[tag] for row in known for tag in row], dtype=np.int64)
    targets = labels_from_pairs(rows, columns, (len(known), len(classes)))
    unknown = torch.tensor([row is None for row in tags], dtype=torch.bool)
    if unknown.any():
        if not isinstance(targets, Tensor):
            raise UserError(f"{where} is too large for unknown labels: leave out the samples without labels")
        targets[unknown] = -1
    return Labels(classes, targets, is_open)


def in_order(names: Iterable[str]) -> list[str]:
    """Sorted class names: by number if all of them are numbers, else by the alphabet.

    >>> in_order({"10", "9"}), in_order({"b", "10", "a"})
    (['9', '10'], ['10', 'a', 'b'])
    """
    names = sorted(names)
    return sorted(names, key=int) if all(_is_number(name) for name in names) else names


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def labels_from_pairs(
    rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]
) -> Tensor | csr_array:
    """Targets (N, C) that are 1 at the given places: a dense int8 tensor, or CSR if that is too large."""
    if shape[0] * shape[1] <= DENSE_LIMIT:
        targets = torch.zeros(shape, dtype=torch.int8)
        targets[torch.from_numpy(rows), torch.from_numpy(columns)] = 1
        return targets
    ones = np.ones(len(rows), dtype=np.int8)
    sparse = require("scipy.sparse", extra="cli").csr_array((ones, (rows, columns)), shape=shape)
    sparse.sum_duplicates()
    sparse.data[:] = 1
    return sparse
