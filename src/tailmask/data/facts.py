"""Facts about a data set that a configuration depends on, known before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailmask._util.messages import UserError
from tailmask.data.options import DataOptions

if TYPE_CHECKING:
    from tailmask.data.dataset import Dataset

__all__ = ["DataError", "DataFacts", "load_data"]


class DataError(UserError):
    """The data cannot be loaded."""


def load_data(data: str, options: DataOptions) -> Dataset:
    """The data set. A problem with the data is a `DataError`."""
    from tailmask.data import load

    try:
        return load(data, options)
    except UserError as error:
        raise DataError(str(error)) from error


@dataclass(frozen=True)
class DataFacts:
    """Facts about the data: their source, their classes, the shape of a sample, and the splits.

    >>> from tailmask.data import load
    >>> facts = DataFacts.of(load("digits"))
    >>> facts.shape, len(facts.classes), facts.single_label
    ((1, 12, 12), 10, False)
    """

    source: dict[str, Any]
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    single_label: bool
    has_validation: bool
    raw_rows: int | None = None  # number of raw rows for training and validation; None if there are none
    is_sparse: bool = False  # True if most features of a row are zero, as in texts

    @classmethod
    def of(cls, dataset: Dataset) -> DataFacts:
        """The facts about a loaded data set."""
        return cls(
            source=dataset.source,
            classes=dataset.classes,
            shape=tuple(dataset.shape),
            single_label=dataset.single_label,
            has_validation=dataset.validation is not None,
            raw_rows=None if dataset.raw is None else len(dataset.raw.development),
            is_sparse=hasattr(dataset.train.inputs, "indptr"),
        )
