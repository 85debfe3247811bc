"""A fitted model with everything that prediction needs: the format of rows, class names, thresholds."""

from __future__ import annotations

import dataclasses
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from tailmask._util.files import write_json
from tailmask._util.messages import UserError
from tailmask._util.serialization import from_mapping
from tailmask.data.row_formats import RowFormat, format_from_json
from tailmask.data.rows import Rows
from tailmask.learners.protocol import Fitted
from tailmask.learners.stored_models import load_fitted

__all__ = ["ModelFacts", "TrainedModel", "is_model", "read_facts"]

_JSON = "model.json"


@dataclass(frozen=True)
class ModelFacts:
    """The facts in model.json, without the format of rows."""

    method: str
    classes: tuple[str, ...]
    single_label: bool
    activation: Literal["sigmoid", "softmax"] = "sigmoid"
    threshold: float = 0.5
    thresholds: tuple[float, ...] | None = None  # on probabilities, one per class
    format: int = 1


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """From raw rows to probabilities and labels; a folder that `tailmask predict` takes.

    >>> TrainedModel.load(Path("nowhere"))
    Traceback (most recent call last):
    tailmask._util.messages.UserError: nowhere is no model: it has no model.json
    """

    fitted: Fitted
    row_format: RowFormat
    facts: ModelFacts

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self.facts.classes

    def outputs(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Probabilities and logits (N, C) of raw rows, in float64 and float32."""
        logits = self.fitted.logits(rows)
        wide = logits.double()
        return (wide.sigmoid() if self.facts.activation == "sigmoid" else wide.softmax(dim=1)), logits

    def save(self, folder: Path) -> None:
        """Write the model into a new folder, completely or not at all."""
        partial = folder.with_name(f".{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        self.fitted.save(partial / "fitted")
        record = dataclasses.asdict(self.facts) | {"rows": self.row_format.to_json()}
        write_json(partial / _JSON, record)
        partial.rename(folder)

    @classmethod
    def load(cls, folder: Path) -> TrainedModel:
        """The model in a folder; damaged or forged files are refused."""
        rows, facts = _read(folder)
        return cls(load_fitted(folder / "fitted"), format_from_json(rows), facts)


def read_facts(folder: Path) -> ModelFacts:
    """The facts in a model's folder; the model itself is not loaded."""
    return _read(folder)[1]


def _read(folder: Path) -> tuple[dict[str, Any], ModelFacts]:
    if not is_model(folder):
        raise UserError(f"{folder} is no model: it has no {_JSON}")
    try:
        record: dict[str, Any] = json.loads((folder / _JSON).read_bytes())
        rows: dict[str, Any] = record.pop("rows")
        facts = from_mapping(ModelFacts, record)
        if facts.thresholds is not None and len(facts.thresholds) != len(facts.classes):
            raise ValueError(f"there must be {len(facts.classes)} thresholds, one per class")
        if facts.activation not in ("sigmoid", "softmax"):
            raise ValueError(f"the activation {facts.activation!r} is unknown")
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise UserError(f"{folder / _JSON} cannot be read: {error}; train the model again") from error
    return rows, facts


def is_model(folder: Path) -> bool:
    """True if a folder holds a model that `TrainedModel.save` wrote.

    >>> is_model(Path("nowhere"))
    False
    """
    return (folder / _JSON).is_file()
