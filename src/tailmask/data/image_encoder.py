"""Images from files or arrays, scaled to one size and normalised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from tailmask.data.encoders import Encoder

__all__ = ["ImageEncoder"]


@dataclass(frozen=True)
class ImageEncoder(Encoder):
    """Images of one size and number of channels, normalised by a mean and a deviation for each channel."""

    channels: int
    height: int
    width: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    kind = "images"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.channels, self.height, self.width)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ImageEncoder:
        fields = {name: value[name] for name in ("channels", "height", "width")}
        return cls(**fields, mean=tuple(value["mean"]), std=tuple(value["std"]))

    def batches(self, path: Path, batch_size: int) -> Iterator[Tensor]:
        raise NotImplementedError
