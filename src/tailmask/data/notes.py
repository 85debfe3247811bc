"""What a user should know of a data set before anything is trained on it."""

from __future__ import annotations

from collections.abc import Iterator

from tailmask.data.dataset import Dataset
from tailmask.errors import listing

__all__ = ["data_notes"]


def data_notes(dataset: Dataset) -> Iterator[str]:
    """How the data were taken, and what their splits lack: sentences without a full stop.

    >>> from tailmask.data import DataOptions, load
    >>> list(data_notes(load("digits", DataOptions())))
    []
    """
    yield from dataset.notes
    for name, split in dataset.splits.items():
        counts = split.counts()  # (2, C)
        for what, numbers in (("positive", counts[1]), ("negative", counts[0])):
            missing = [dataset.classes[index] for index in (numbers == 0).nonzero().flatten()]
            if missing:
                yield f"{name} has no {what} sample of {listing(missing)}"
        number = len(split) * len(dataset.classes)
        unknown = number - int(counts.sum())
        if unknown:
            yield f"{unknown} labels of {name} ({unknown / number:.2%}) are unknown and count nowhere"
