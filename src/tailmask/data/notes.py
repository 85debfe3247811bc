"""Notes about a data set that a user should read before training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tailmask._util.messages import listing
from tailmask.data.class_statistics import Statistics
from tailmask.data.dataset import Dataset

__all__ = ["data_notes"]


def data_notes(dataset: Dataset, statistics: Mapping[str, Statistics]) -> Iterator[str]:
    """Notes on how the data were read and what their splits lack: sentences without a full stop.

    >>> from tailmask.data import DataOptions, load
    >>> from tailmask.data.class_statistics import summaries
    >>> digits = load("digits", DataOptions())
    >>> list(data_notes(digits, summaries(digits)))
    []
    """
    yield from dataset.notes
    for name, split in statistics.items():
        if split.without_positives:
            yield f"{name} has no positive sample of {listing(split.without_positives)}"
        if split.without_negatives:
            yield f"{name} has no negative sample of {listing(split.without_negatives)}"
        unknown = sum(split.unknown)
        if unknown:
            share = unknown / (split.num_samples * len(split.classes))
            yield f"{unknown} labels of {name} ({share:.2%}) are unknown: the loss and the scores ignore them"
