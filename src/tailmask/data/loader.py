"""Batches of a split in a given order: indexed from memory, or decoded by worker processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tailmask.data.dataset import Split
from tailmask.errors import UserError

__all__ = ["BatchLoader"]


class BatchLoader:
    """The batches of `split` that `indices` list, one after the other.

    With `seeds`, inputs are augmented by a generator that is seeded with them and the number of the batch, so
    a batch is the same whichever worker makes it and wherever an epoch resumes. Workers are started only for
    files on disk.

    >>> split = Split(torch.eye(3), torch.tensor([[1], [0], [1]], dtype=torch.int8))
    >>> [targets.tolist() for _, targets in BatchLoader(split, [torch.tensor([0, 1]), torch.tensor([2])])]
    [[[1.0], [0.0]], [[1.0]]]
    """

    def __init__(
        self,
        split: Split,
        indices: Sequence[Tensor],
        *,
        seeds: Sequence[int] | None = None,
        num_workers: int = 0,
    ) -> None:
        self._batches = _Batches(split, indices, seeds)
        self._num_workers = num_workers if split.on_disk else 0

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        loader = DataLoader(self._batches, batch_size=None, shuffle=False, num_workers=self._num_workers)
        for batch in loader:
            if isinstance(batch, UserError):
                raise batch
            yield batch


class _Batches(Dataset[tuple[Tensor, Tensor] | UserError]):
    def __init__(self, split: Split, indices: Sequence[Tensor], seeds: Sequence[int] | None) -> None:
        self._split, self._indices, self._seeds = split, indices, seeds

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor] | UserError:
        generator = None
        if self._seeds is not None:
            state = np.random.SeedSequence((*self._seeds, number)).generate_state(1, np.uint64)
            generator = torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))
        try:
            return self._split.batch(self._indices[number], generator)
        except UserError as error:  # handed over as it is: a worker would wrap it in its traceback
            return error
