"""Features of a pretrained model as inputs, standardised with the moments of the training rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tailmask.data.encoders.array import ArrayEncoder
from tailmask.data.encoders.encoder import Encoder
from tailmask.data.pretrained.backbone_format import BackboneFormat

__all__ = ["BackboneEncoder"]


@dataclass(frozen=True, eq=False)
class BackboneEncoder(Encoder):
    """Encoder of texts or images as the standardised features of a frozen model."""

    format: BackboneFormat
    scale: ArrayEncoder

    kind = "backbone"

    @property
    def shape(self) -> tuple[int, ...]:
        """One number per feature."""
        return self.scale.shape

    @property
    def reads_images(self) -> bool:
        """True if samples are images."""
        return self.format.reads_images

    @property
    def header(self) -> bool:
        """True if a table has a line with names."""
        return self.format.header

    def to_json(self) -> dict[str, Any]:
        """The format, and the scales of the features."""
        return {"kind": self.kind, "format": self.format.to_json(), "scale": self.scale.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BackboneEncoder:
        """The encoder that `to_json` wrote; `Encoder.from_json` calls this for the kind `backbone`."""
        own, scale = BackboneFormat.from_json(value["format"]), ArrayEncoder.from_json(value["scale"])
        if scale.num_features != own.num_features:
            raise ValueError(f"there must be {own.num_features} scales, got {scale.num_features}")
        return cls(own, scale)

    def allowed(self, name: str | None) -> BackboneEncoder:
        """The encoder with the model in the place `name`, or with the user's consent to run its code."""
        return replace(self, format=self.format.allowed(name))

    def scaled(self, features: NDArray[np.float32]) -> Tensor:
        """Inputs (N, D) of features."""
        inputs = self.scale.encode(features)
        assert isinstance(inputs, Tensor)
        return inputs

    def batches(self, path: Path, batch_size: int, *, images: Path | None = None) -> Iterator[Tensor]:
        """Inputs (B, D) of a table with texts, or of images as `ImageEncoder` reads them."""
        for rows in self.format.pieces(path, batch_size, images=images):
            yield self.scaled(rows.features)
