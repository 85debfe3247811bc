"""Raw rows, before any encoding: each learner fits its own encoder on the rows that it gets."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tailmask.data.copied_rows import compared_columns, frame_keys, groups_with_copies, row_keys

if TYPE_CHECKING:
    from tailmask.data.pretrained.backbone_format import BackboneFormat
    from tailmask.data.row_formats import ArrayFormat, TableFormat

__all__ = ["Features", "RawData", "Rows", "as_targets", "is_sparse"]

Features: TypeAlias = Any  # a polars frame, a dense array, or one of scipy's sparse arrays


@dataclass(frozen=True, eq=False)
class Rows:
    """Raw rows: features, and if known their targets, groups and times.

    >>> rows = Rows(np.eye(3), targets=np.array([[1], [0], [-1]]), groups=np.array([7, 7, 8]))
    >>> some = rows.take(np.array([2, 0]))
    >>> len(some), some.targets.tolist(), some.groups.tolist()
    (2, [[-1], [1]], [8, 7])
    """

    features: Features  # (N, F)
    targets: npt.NDArray[np.int8] | None = None  # (N, C): 1, 0, or −1 where unknown
    groups: npt.NDArray[Any] | None = None  # (N,): rows of one group stay in one fold
    times: npt.NDArray[Any] | None = None  # (N,): folds go forward in time
    format: TableFormat | ArrayFormat | BackboneFormat | None = None  # how new rows are read and checked
    texts: npt.NDArray[np.object_] | None = None  # (N,): the texts that a pretrained model's features are of

    def __post_init__(self) -> None:
        if len(self.features.shape) != 2:
            raise ValueError(
                f"features must have the shape (rows, features), got {tuple(self.features.shape)}"
            )
        if self.targets is not None:
            object.__setattr__(self, "targets", as_targets(self.targets, len(self)))
        for name in ("groups", "times", "texts"):
            value = getattr(self, name)
            if value is not None and np.shape(value) != (len(self),):
                raise ValueError(f"{name} must have one value per row, so the shape ({len(self)},)")

    def __len__(self) -> int:
        return int(self.features.shape[0])

    @property
    def labelled(self) -> npt.NDArray[np.int8]:
        """The targets; a ValueError if there are none."""
        if self.targets is None:
            raise ValueError("these rows have no targets, but a fit needs them")
        return self.targets

    def take(self, index: npt.NDArray[np.int64]) -> Rows:
        """The rows in `index`, in its order, in the same format."""
        features = self.features.tocsr() if is_sparse(self.features) else self.features
        parts = {
            name: value[index]
            for name in ("targets", "groups", "times", "texts")
            if (value := getattr(self, name)) is not None
        }
        return replace(self, features=features[index], **parts)

    def digest(self) -> str:
        """A hash of features and targets. It shows whether a folder was made from the same rows.

        >>> Rows(np.eye(2)).digest() == Rows(np.eye(2)).digest() != Rows(np.ones((2, 2))).digest()
        True
        """
        names = getattr(self.features, "columns", None)  # only frames have them
        keys = self._keys(names)
        digest = hashlib.sha256(repr((tuple(self.features.shape), names)).encode() + keys.tobytes())
        if self.targets is not None:
            digest.update(self.targets.tobytes())
        if self.texts is not None:
            digest.update(repr(self.texts.tolist()).encode())
        return digest.hexdigest()

    def with_copies_together(self) -> Rows:
        """The same rows, with groups that keep copies of a row in one fold.

        >>> Rows(np.arange(100.0)[:, None] // 2).with_copies_together().groups[:4].tolist()
        [0, 0, 2, 2]
        """
        is_frame = hasattr(self.features, "columns")
        names = compared_columns(self.features, self.features.columns) if is_frame else None
        return replace(self, groups=groups_with_copies(self._keys(names), self.groups))

    def _keys(self, names: Sequence[str] | None) -> npt.NDArray[np.uint64]:
        """A hash of each row; for a frame, over the columns `names`."""
        if names is not None:
            return frame_keys(self.features, names)
        return row_keys(self.features.tocsr() if is_sparse(self.features) else np.asarray(self.features))


@dataclass(frozen=True, eq=False)
class RawData:
    """The rows of a data set before any encoding, in its splits.

    >>> rows = Rows(np.eye(3), targets=np.array([[1], [0], [1]]))
    >>> raw = RawData(rows.take(np.array([2, 0])), rows.take(np.array([1])), num_train=1)
    >>> len(raw.development), len(raw.test)
    (2, 1)
    """

    development: Rows  # the training rows, then the validation rows
    test: Rows
    num_train: int  # the training split is this many rows at the beginning of `development`


def is_sparse(matrix: Any) -> bool:
    """True for a sparse matrix of scipy.

    >>> is_sparse(np.zeros((2, 3)))
    False
    """
    return hasattr(matrix, "tocsr")


def as_targets(targets: npt.NDArray[Any], rows: int) -> npt.NDArray[np.int8]:
    """The targets (N, C) in int8, each 1, 0 or −1 = unknown.

    >>> as_targets(np.array([[1, 0], [-1, 1]]), 2).dtype
    dtype('int8')
    """
    targets = np.asarray(targets)
    if targets.ndim != 2 or len(targets) != rows or rows == 0 or targets.shape[1] == 0:
        raise ValueError(f"expected targets of the shape ({rows}, classes), got {targets.shape}")
    if not np.isin(targets, (-1, 0, 1)).all():
        raise ValueError("targets must be 1, 0 or −1 for unknown")
    return np.ascontiguousarray(targets, dtype=np.int8)
