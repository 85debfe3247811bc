"""What a study needs to know of its data before the first run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailmask.errors import UserError
from tailmask.study.plan import Setting

if TYPE_CHECKING:
    from tailmask.data.dataset import Dataset

__all__ = ["DataError", "DataFacts", "load_data"]


class DataError(UserError):
    """The data of a setting cannot be loaded."""


def load_data(setting: Setting) -> Dataset:
    """The data of a setting; what goes wrong with them is a `DataError`."""
    from tailmask.data import load

    try:
        return load(setting.data, setting.options)
    except UserError as error:
        raise DataError(str(error)) from error


@dataclass(frozen=True)
class DataFacts:
    """The names of the classes, whether a sample has one label, the splits there are, and the source."""

    source: dict[str, Any]
    classes: tuple[str, ...]
    single_label: bool
    has_validation: bool

    @classmethod
    def of(cls, dataset: Dataset) -> DataFacts:
        """The facts about a data set that is loaded."""
        return cls(dataset.source, dataset.classes, dataset.single_label, dataset.validation is not None)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**vars(self), "classes": list(self.classes)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> DataFacts:
        """The facts that `to_json` wrote."""
        return cls(**value | {"classes": tuple(value["classes"])})
