"""The two samplers and their base class: seeded epochs, ranks, and the class counts of an epoch."""

from __future__ import annotations

import statistics
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler

from tailmask._util.registry import Option, word
from tailmask.sampling.class_members import Integers, read_members

__all__ = ["ClassAwareSampler", "EpochSampler", "UndersamplingSampler"]


class EpochSampler(Sampler[int]):
    """Base of the samplers: the random samples of an epoch, and each rank's part of them."""

    def __init__(
        self,
        targets: Any,
        *,
        seed: int,
        num_classes: int | None,
        num_replicas: int | None,
        rank: int | None,
    ) -> None:
        self.dataset_size, self._positives, self._unknown = read_members(targets, num_classes)
        if not len(self._positives.samples):
            raise ValueError("the targets have no positive label, so there is nothing to draw: check them")
        if seed < 0:
            raise ValueError(f"seed must be 0 or more, got {seed}")
        if (num_replicas is None) != (rank is None):
            raise ValueError("num_replicas and rank belong together: pass both or neither")
        if num_replicas is not None and rank is not None and not 0 <= rank < num_replicas:
            raise ValueError(f"rank must be from 0 to {num_replicas - 1}, got {rank}")
        self.seed = seed
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self._drawn: Integers | None = None
        self._is_iterated = False

    @abstractmethod
    def _draw(self, words: np.random.PCG64) -> Integers:
        """The samples of one epoch, in order."""

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch, which has its own random samples; all ranks must go to the same epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self._drawn = None
        self._is_iterated = False

    def draw(self) -> Integers:
        """The samples of the epoch, all ranks together, in order."""
        if self._drawn is None:
            self._drawn = self._draw(np.random.PCG64(np.random.SeedSequence((self.seed, self.epoch))))
        return self._drawn

    def indices(self) -> Tensor:
        """This rank's samples of the epoch, in order, int64: every R-th sample for R ranks.

        All ranks have the same number of samples. If the samples cannot be split evenly, the first ones are
        used again for the last ranks, as in torch's own `DistributedSampler`.
        """
        num_replicas, rank = self._replicas()
        padded = np.resize(self.draw(), len(self) * num_replicas)
        return torch.from_numpy(padded[rank::num_replicas].copy())

    def class_counts(self) -> Tensor:
        """Negatives and positives of each class in the epoch (2, C), all ranks together.

        Samples count as often as they are drawn; padding and unknown labels do not count. Pass these counts
        to `PartialLabelMasking` in each epoch, since it masks by the ratio of the drawn samples.
        """
        times = np.bincount(self.draw(), minlength=self.dataset_size)
        positives, unknown = self._positives.count(times), self._unknown.count(times)
        return torch.from_numpy(np.stack([times.sum() - positives - unknown, positives]))

    def __iter__(self) -> Iterator[int]:
        if self._is_iterated:
            warnings.warn(
                f"the samples of epoch {self.epoch} are used a second time, and samples that were not drawn "
                "are never used: call set_epoch(epoch) before each epoch",
                stacklevel=2,
            )
        self._is_iterated = True
        return iter(self.indices().tolist())

    def __len__(self) -> int:
        num_replicas, _ = self._replicas()
        return -(-len(self.draw()) // num_replicas)

    def _replicas(self) -> tuple[int, int]:
        if self.num_replicas is not None and self.rank is not None:
            return self.num_replicas, self.rank
        # Asked each time because samplers are often built before the process group.
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_world_size(), distributed.get_rank()
        return 1, 0


@word("undersample", kind="sampling", summary="up to S new random samples of each class in each epoch")
class UndersamplingSampler(EpochSampler):
    """Undersampling (Duarte et al. 2021): an epoch is the union of up to S random samples of each class.

    A sample that is drawn for several classes is used once, and a class with fewer than S samples gives all
    of them, so the length of an epoch varies. A class can have more than S samples if it occurs together with
    other classes. In your own loop, call `set_epoch` before each epoch, because otherwise all epochs have the
    same samples (Lightning, Accelerate and the Trainer of Hugging Face call it themselves). Pass the class
    counts of each epoch to `PartialLabelMasking`.

    >>> sampler = UndersamplingSampler(torch.tensor([0] * 90 + [1] * 5), samples_per_class=10)
    >>> sampler.set_epoch(1)
    >>> len(sampler), sampler.class_counts().tolist()
    (15, [[5, 10], [10, 5]])
    >>> negatives, positives = sampler.class_counts()  # criterion.set_class_counts(positives, negatives)

    Args:
        targets: The training targets: tensor or array (N, C), with −1 or NaN for unknown labels; scipy sparse
            (N, C); or class indices (N,), −1 for unknown.
        samples_per_class: S; by default the median of the classes' positives. The paper and the recipes have
            500 on MultiMNIST and 1000 on MSCOCO.
        seed: Determines the draws of all epochs.
        num_classes: The number of classes, if class indices may lack the last ones.
        num_replicas: Number of ranks; None asks torch.distributed.
        rank: This rank; None asks torch.distributed.

    Mind:
        An epoch is shorter. With `plm`, the class ratio is that of the drawn samples. Frequent classes occur
        together with rare ones, so much of the imbalance stays: on MSCOCO's training labels, S = 1000 only
        lowers it from 353 to about 230.
    """

    def __init__(
        self,
        targets: Any,
        samples_per_class: Annotated[int | None, Option(minimum=1)] = None,
        *,
        seed: int = 0,
        num_classes: int | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(targets, seed=seed, num_classes=num_classes, num_replicas=num_replicas, rank=rank)
        if samples_per_class is None:
            samples_per_class = max(1, statistics.median_low(self._positives.sizes.tolist()))
        self.samples_per_class = samples_per_class

    def _draw(self, words: np.random.PCG64) -> Integers:
        members = self._positives
        keys = words.random_raw(len(members.samples))
        drawn = np.ones(len(keys), dtype=bool)
        # A class with more than S samples gives those with the S smallest keys.
        for index in np.flatnonzero(members.sizes > self.samples_per_class):
            own = slice(members.starts[index], members.starts[index + 1])
            order = np.argpartition(keys[own], self.samples_per_class)
            drawn[own][order[self.samples_per_class :]] = False
        samples: Integers = np.unique(members.samples[drawn])
        return samples[_permutations(words, 1, len(samples)).ravel()]


@word("classaware", kind="sampling", summary="draws a class, then one of its samples")
class ClassAwareSampler(EpochSampler):
    """Class-aware sampling (Shen et al. 2016): all classes in turn, one sample of the class each time.

    In each round every class has one turn, in random order. The samples of a class are shuffled and used one
    after the other; when all have been used, they are shuffled again. A sample with several labels belongs to
    each of its classes, so frequent classes are still seen more often. Call `set_epoch` before each epoch, as
    with `UndersamplingSampler`.

    >>> sampler = ClassAwareSampler(torch.tensor([0] * 90 + [1] * 10))
    >>> len(sampler), sampler.class_counts().tolist()
    (100, [[50, 50], [50, 50]])

    Args:
        targets: As in `UndersamplingSampler`.
        epoch_length: Samples per epoch, all ranks together. None is the number of samples N, so an epoch
            takes as long as without the sampler. Wu et al. 2020 take a quarter of the largest class's size
            times the number of classes.
        seed: As in `UndersamplingSampler`.
        num_classes: As in `UndersamplingSampler`.
        num_replicas: As in `UndersamplingSampler`.
        rank: As in `UndersamplingSampler`.

    Mind:
        With `plm`, the class ratio is that of the drawn samples.

    Paper:
        Shen, Lin, Huang, [Relay Backpropagation for Effective Learning of Deep Convolutional Neural
        Networks](https://arxiv.org/abs/1512.05830), ECCV 2016
    """

    def __init__(
        self,
        targets: Any,
        *,
        epoch_length: int | None = None,
        seed: int = 0,
        num_classes: int | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        if epoch_length is not None and epoch_length < 1:
            raise ValueError(f"epoch_length must be 1 or more, got {epoch_length}")
        super().__init__(targets, seed=seed, num_classes=num_classes, num_replicas=num_replicas, rank=rank)
        self.epoch_length = self.dataset_size if epoch_length is None else epoch_length

    def _draw(self, words: np.random.PCG64) -> Integers:
        classes = np.flatnonzero(self._positives.sizes).tolist()
        num_rounds = -(-self.epoch_length // len(classes))
        rounds = np.empty((num_rounds, len(classes)), dtype=np.int64)
        for column, index in enumerate(classes):
            own = self._positives.of(index)
            num_cycles = -(-num_rounds // len(own))
            order = _permutations(words, num_cycles, len(own)).ravel()
            rounds[:, column] = own[order[:num_rounds]]
        order = _permutations(words, num_rounds, len(classes))
        return np.take_along_axis(rounds, order, axis=1).ravel()[: self.epoch_length]


def _permutations(words: np.random.PCG64, number: int, length: int) -> Integers:
    """Random orders of `length` indices, one per row."""
    keys = words.random_raw(number * length).reshape(number, length)
    return np.argsort(keys, axis=1, kind="stable")
