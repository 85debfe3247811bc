"""One shape for all data: splits of inputs and targets, with the names of their classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tailmask.data.encoders.encoder import Encoder
    from tailmask.data.readers.table.column_summary import ColumnUse
    from tailmask.data.rows import RawData

__all__ = ["BatchSource", "Dataset", "Inputs", "Split"]


@runtime_checkable
class BatchSource(Protocol):
    """Inputs that build their own batches: images that are normalised, augmented, or read from disk."""

    def __len__(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample, as the model gets it."""
        ...

    @property
    def on_disk(self) -> bool:
        """True if batches are decoded from files; then DataLoader workers save time."""
        ...

    def batch(self, index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Inputs (B, …) in float32. With a generator they are augmented at random."""
        ...


Inputs: TypeAlias = "Tensor | csr_array | BatchSource"


@dataclass(frozen=True)
class Split:
    """Inputs and targets of one part of a data set, batched by indexing whole tensors.

    `inputs` is a tensor (N, …), float32 or uint8 (a batch divides uint8 by 255), a scipy CSR array (N, F)
    that stays sparse until the batch, or a `BatchSource`. `targets` is an int8 tensor (N, C) of 1, 0 and −1
    (unknown), or a CSR array of ones if there are many classes. `members` (N, k) number what dependent
    samples share: the patient of each X-ray (k = 1), or the two digits of each image (k = 2). Intervals then
    resample patients or digits.

    >>> split = Split(torch.eye(3), torch.tensor([[1, 0], [0, 1], [-1, 1]], dtype=torch.int8))
    >>> split.batch(torch.tensor([2, 0]))
    (tensor([[0., 0., 1.],
             [1., 0., 0.]]),
     tensor([[-1.,  1.],
             [ 1.,  0.]]))
    >>> split.counts()
    tensor([[1, 1],
            [1, 2]])
    """

    inputs: Inputs
    targets: Tensor | csr_array
    members: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        number = len(self.inputs) if isinstance(self.inputs, Tensor | BatchSource) else self.inputs.shape[0]
        if number != self.targets.shape[0]:
            raise ValueError(
                f"inputs and targets must have the same length, got {number} and {self.targets.shape[0]}"
            )
        if self.members is not None and (
            self.members.ndim != 2
            or len(self.members) != number
            or self.members.shape[1] not in (1, 2)
            or not np.issubdtype(self.members.dtype, np.integer)
        ):
            raise ValueError(
                f"members must be integers of shape ({number}, 1) or ({number}, 2), "
                f"got {self.members.dtype} of shape {self.members.shape}"
            )

    def __len__(self) -> int:
        return int(self.targets.shape[0])

    @property
    def num_classes(self) -> int:
        """Number of classes C."""
        return int(self.targets.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample, as the model gets it."""
        if isinstance(self.inputs, BatchSource):
            return self.inputs.shape
        return tuple(self.inputs.shape[1:])

    @property
    def on_disk(self) -> bool:
        """True if batches are decoded from files; then DataLoader workers save time."""
        return isinstance(self.inputs, BatchSource) and self.inputs.on_disk

    def batch(self, index: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Inputs (B, …) and targets (B, C) of the samples in `index`, both float32, −1 = unknown.

        With a generator, as in training, inputs are augmented at random. Without one they are unchanged.
        """
        return self._inputs(index, generator), self._targets(index)

    def _inputs(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        if isinstance(self.inputs, BatchSource):
            return self.inputs.batch(index, generator)
        if isinstance(self.inputs, Tensor):
            rows = self.inputs.index_select(0, index)
            return rows.float().div_(255.0) if rows.dtype == torch.uint8 else rows.float()
        return torch.from_numpy(self.inputs[index.numpy()].toarray()).float()

    def _targets(self, index: Tensor) -> Tensor:
        if isinstance(self.targets, Tensor):
            return self.targets.index_select(0, index).float()
        return torch.from_numpy(self.targets[index.numpy()].toarray()).float()

    def counts(self) -> Tensor:
        """Negatives and positives of each class, (2, C) int64; unknown labels are left out."""
        if isinstance(self.targets, Tensor):
            labels = self.targets.numpy()  # NumPy counts along the samples several times faster than torch
            return torch.stack(
                [torch.from_numpy(np.count_nonzero(labels == each, axis=0)) for each in (0, 1)]
            )
        positives = torch.from_numpy(self.targets.sum(axis=0, dtype=np.int64))
        return torch.stack([len(self) - positives, positives])


@dataclass(frozen=True)
class Dataset:
    """Training, validation and test splits with the names of their classes.

    If `single_label` is true, every sample has exactly one positive, and the arg max is the prediction.
    `encoder` turned the raw files into inputs, and reads new files in the same way. `source` identifies the
    data as plain JSON: the name, the options that matter, sizes and digests. `columns` says how each column
    of a table is used. `notes` tell the user how the data were read. `unit` is the word for the splits'
    `members`, such as "digit". `raw` has the rows of tables and arrays before any encoding, for learners that
    fit their own encoder; it is None for images, and if there are very many labels. `row_numbers` are the
    rows of a user's file in each split, counted from 1.
    """

    name: str
    classes: tuple[str, ...]
    train: Split
    validation: Split | None
    test: Split
    encoder: Encoder
    single_label: bool = False
    source: dict[str, object] = field(default_factory=dict)
    columns: tuple[ColumnUse, ...] = ()
    notes: tuple[str, ...] = ()
    unit: str | None = None
    raw: RawData | None = None
    row_numbers: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def splits(self) -> dict[str, Split]:
        """The existing splits by name."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: split for name, split in parts.items() if split is not None}

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample, as the model gets it."""
        return self.train.shape
