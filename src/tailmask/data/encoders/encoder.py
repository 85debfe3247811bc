"""Encoders turn raw files into inputs: they are fitted in training, kept as JSON, and used on new files."""

from __future__ import annotations

import importlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from tailmask._util.messages import UserError

__all__ = ["Encoder"]

_KINDS = {
    "arrays": "tailmask.data.encoders.array:ArrayEncoder",
    "backbone": "tailmask.data.encoders.backbone_encoder:BackboneEncoder",
    "images": "tailmask.data.encoders.image:ImageEncoder",
    "table": "tailmask.data.encoders.standard_table:StandardTableEncoder",
    "table-2": "tailmask.data.encoders.table:TableEncoder",
    "tokens": "tailmask.data.encoders.token_encoder:TokenEncoder",
}


class Encoder(ABC):
    """An encoder of raw input as a model's inputs, fitted on the training split."""

    kind: ClassVar[str]

    @property
    def reads_images(self) -> bool:
        """True if samples are images; then a folder or a list of files can be read."""
        return False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample, as the model gets it."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Everything that `from_json` needs, as plain JSON values."""

    @abstractmethod
    def batches(self, path: Path, batch_size: int) -> Iterator[Tensor]:
        """Inputs (B, …) in float32 of the unlabelled samples in a file, read piece by piece."""

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Encoder:
        """The encoder that `to_json` wrote, in the class of its kind."""
        kind = value.get("kind")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise UserError(
                f"this version of tailmask knows no encoder of kind {kind!r}: install a newer one"
            )
        module, _, name = _KINDS[kind].partition(":")
        try:
            encoder: Encoder = getattr(importlib.import_module(module), name).from_json(value)
            sizes = [operator.index(size) for size in encoder.shape]
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UserError(
                f"the stored encoder of kind {kind!r} is damaged ({type(error).__name__}: {error}): "
                "train the model again"
            ) from error
        if any(isinstance(size, bool) or size < 0 for size in sizes):
            raise UserError(
                f"the stored encoder of kind {kind!r} cannot have the shape {encoder.shape}: train the "
                "model again"
            )
        return encoder
