"""The batches of one epoch, from whole tensors; under DDP each rank gets its rows of every batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tailmask._util.cores import num_cores
from tailmask._util.messages import UserError
from tailmask._util.seeds import generator
from tailmask.data.dataset import Split

__all__ = ["Batch", "Batches", "Shard", "Workers", "loader"]


class Shard(NamedTuple):
    """The number of one rank, and the number of all ranks."""

    rank: int = 0
    world_size: int = 1

    def rows(self, index: Tensor) -> tuple[Tensor, int]:
        """This rank's rows of a batch, and the number of padding rows at the end.

        All ranks get the same number, since each must take every step. If a batch cannot be divided evenly,
        the last ranks repeat one of its rows.

        >>> [Shard(rank, 2).rows(torch.arange(3)) for rank in (0, 1)]
        [(tensor([0, 2]), 0), (tensor([1, 0]), 1)]
        """
        number = -(-len(index) // self.world_size)
        places = torch.arange(self.rank, number * self.world_size, self.world_size)
        return index[places % len(index)], int((places >= len(index)).sum())


class Batch(NamedTuple):
    """Inputs (B, …), targets (B, C), and a factor: with it, the ranks' losses average to the batch's loss."""

    inputs: Tensor
    targets: Tensor
    scale: float


class Batches(Dataset[Batch]):
    """The batches of one pass over the samples in `order`.

    `purpose` seeds the augmentation of each batch separately: it depends neither on the worker nor on earlier
    batches. None means no augmentation.

    >>> split = Split(torch.eye(3), torch.eye(3, dtype=torch.int8))
    >>> [len(batch.inputs) for batch in Batches(split, torch.arange(3), batch_size=2)]
    [2, 1]
    """

    def __init__(
        self,
        split: Split,
        order: Tensor,
        *,
        batch_size: int,
        purpose: tuple[int, str, int] | None = None,
        shard: Shard | None = None,
    ) -> None:
        self.split = split
        self.order = order
        self.batch_size = batch_size
        self.purpose = purpose
        self.shard = shard or Shard()
        self._number = -(-len(order) // batch_size)

    def __len__(self) -> int:
        return self._number

    @property
    def num_last_rows(self) -> int:
        """Number of rows that each rank has in the last batch."""
        return -(-len(self._index(len(self) - 1)) // self.shard.world_size)

    def join_last(self) -> None:
        """Join the last batch to the one before it, if there is one.

        >>> split = Split(torch.eye(5), torch.eye(5, dtype=torch.int8))
        >>> batches = Batches(split, torch.arange(5), batch_size=2)
        >>> batches.join_last()
        >>> [len(batch.inputs) for batch in batches]
        [2, 3]
        """
        self._number = max(1, self._number - 1)

    def _index(self, number: int) -> Tensor:
        end = (number + 1) * self.batch_size if number + 1 < len(self) else None
        return self.order[number * self.batch_size : end]

    def __getitem__(self, number: int) -> Batch:
        index = self._index(number)
        rows, num_filling = self.shard.rows(index)
        source = None if self.purpose is None else generator(*self.purpose, number, self.shard.rank)
        inputs, targets = self.split.batch(rows, source)
        if num_filling:
            targets[-num_filling:] = -1  # unknown: adds no loss, and PLM does not count it
        if inputs.ndim == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return Batch(inputs, targets, scale=len(rows) * self.shard.world_size / len(index))

    def __iter__(self) -> Iterator[Batch]:
        return (self[number] for number in range(len(self)))


def loader(batches: Batches) -> Any:
    """The batches themselves, or worker processes that decode them if they come from disk."""
    return Workers(batches) if batches.split.on_disk else batches


class Workers:
    """Batches made by worker processes, one per core, in order.

    A worker returns a `UserError`, such as one about a broken image file, and it is raised here: torch would
    wrap it into its own traceback.
    """

    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        for made in DataLoader(_Returned(self.batches), batch_size=None, num_workers=min(8, num_cores())):
            if isinstance(made, UserError):
                raise made
            yield made


class _Returned(Dataset[Batch | UserError]):
    """The batches; a `UserError` from making one is returned instead of raised."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Batch | UserError:
        try:
            return self.batches[number]
        except UserError as error:
            return error
