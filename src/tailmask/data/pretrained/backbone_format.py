"""Texts and images that a pretrained model turns into features: how new ones are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError, require
from tailmask.backbones.backbone import Backbone, BackboneChoice, is_backbone, open_backbone
from tailmask.data.encoders.encoder import Encoder
from tailmask.data.encoders.image import ImageEncoder
from tailmask.data.images.on_disk import read_upright
from tailmask.data.readers.table.frames import TABLES, frame_pieces, is_table
from tailmask.data.rows import Rows

if TYPE_CHECKING:
    import polars as pl

__all__ = ["BackboneFormat", "TextEncoder", "Texts", "joined_texts", "to_pillow"]

# Images that are in memory at full size at once.
DECODED = 32


@dataclass(frozen=True)
class Texts:
    """One text per sample, as a data set has them before a pretrained model turns them into numbers."""

    values: tuple[str, ...]

    shape: tuple[int, ...] = ()
    on_disk = False

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """There are no numbers yet."""
        raise TypeError("texts are no inputs for a network before a backbone has turned them into features")


@dataclass(frozen=True)
class TextEncoder(Encoder):
    """Which columns of a table hold the texts."""

    columns: tuple[str, ...]
    header: bool = True

    kind = "texts"
    shape = ()

    def to_json(self) -> dict[str, Any]:
        """The names of the columns."""
        return {"kind": self.kind, "columns": list(self.columns), "header": self.header}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TextEncoder:
        """Read what `to_json` wrote."""
        return cls(tuple(str(name) for name in value["columns"]), bool(value["header"]))

    def batches(self, path: Path, batch_size: int) -> Iterator[Tensor]:
        """There are no numbers: a `BackboneEncoder` makes them."""
        raise TypeError("texts need a backbone to become inputs")

    def texts(self, path: Path, batch_size: int) -> Iterator[list[str]]:
        """The texts of a table, `batch_size` at a time."""
        if not is_table(path):
            raise UserError(f"{path} must be a table ({', '.join(TABLES)}), as the model was trained on one")
        types = dict.fromkeys(self.columns, require("polars", extra="tables").String)
        for frame in frame_pieces(path, batch_size, columns=self.columns, types=types, header=self.header):
            yield joined_texts(frame, self.columns)


@dataclass(frozen=True)
class BackboneFormat:
    """Rows that are features of a frozen model: which one, and where the texts or images are.

    `digest` is the backbone's, which must still be the same when new samples come. Code of the user's own is
    run only if the user names it again; see `allowed`.
    """

    choice: BackboneChoice
    digest: str
    source: TextEncoder | ImageEncoder
    num_features: int
    is_allowed: bool = True

    def __post_init__(self) -> None:
        if type(self.num_features) is not int or self.num_features < 1:
            raise ValueError(f"a backbone has 1 feature or more, got {self.num_features!r}")

    @property
    def reads_images(self) -> bool:
        """Whether samples are images."""
        return self.choice.kind == "images"

    @property
    def header(self) -> bool:
        """Whether a table has a line with names."""
        return not isinstance(self.source, TextEncoder) or self.source.header

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, from which `format_from_json` makes the format again."""
        return {
            "kind": "backbone",
            "choice": self.choice.to_json(),
            "digest": self.digest,
            "source": self.source.to_json(),
            "num_features": self.num_features,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BackboneFormat:
        """What `to_json` described; code of the user's own is not yet allowed to run."""
        choice = BackboneChoice.from_json(value["choice"])
        build = ImageEncoder.from_json if choice.kind == "images" else TextEncoder.from_json
        source = build(value["source"])
        return cls(choice, str(value["digest"]), source, value["num_features"], not choice.is_code)

    def allowed(self, name: str | None) -> BackboneFormat:
        """The format with its model where `name` says that it is, or with the user's word for its code."""
        if name is None:
            return self
        if is_backbone(name) == self.choice.is_code:
            raise UserError(f"this model was trained on features of {self.choice.name}, not of {name}")
        if self.choice.is_code:
            return replace(self, is_allowed=self.is_allowed or name == self.choice.name)
        return replace(self, choice=self.choice.named(name))

    @cached_property
    def backbone(self) -> Backbone:
        """The model, which must be the one of training."""
        if not self.is_allowed:
            raise UserError(
                "this model was trained on features of a function of your own: say that its code may be run "
                f"with --encoder {self.choice.name}"
            )
        backbone = open_backbone(self.choice)
        if backbone.digest != self.digest:
            raise UserError(
                f"{self.choice.name} is not what the model was trained with: its weights, preprocessing or "
                "code have changed"
                + ("" if self.choice.is_code else " (name the same model's folder with --model hf:FOLDER)")
            )
        return backbone

    def pieces(self, path: Path, batch_size: int, *, images: Path | None = None) -> Iterator[Rows]:
        """The unlabelled rows of a file, `batch_size` at a time: a table of texts, or images.

        Images are those of an .npz file, one image, a folder, or a list; what a list names is relative to the
        folder `images`, by default its own.
        """
        for features in self._features(path, batch_size, images):
            yield Rows(features, format=self)

    def rows(self, samples: Sequence[Any] | NDArray[Any]) -> Rows:
        """The unlabelled rows of a list of texts or Pillow images, or of an array (N, D) of features."""
        if not isinstance(samples, np.ndarray):
            samples = self.backbone.features(samples)
        if samples.ndim != 2 or samples.shape[1] != self.num_features:
            raise UserError(
                f"features must have the shape (N, {self.num_features}), as in training, got "
                f"{tuple(samples.shape)}"
            )
        return Rows(samples, format=self)

    def _features(self, path: Path, batch_size: int, images: Path | None) -> Iterator[NDArray[np.float32]]:
        if isinstance(self.source, TextEncoder):
            for texts in self.source.texts(path, batch_size):
                yield self.backbone.features(texts)
        elif path.suffix.lower() == ".npz":
            for pixels in self.source.pixels(path, batch_size):
                yield self._of_images(map(to_pillow, torch.split(pixels, DECODED)))
        else:
            from tailmask.data.readers.image_list import listed_images

            names = listed_images(path, images)
            for start in range(0, len(names), batch_size):
                piece = names[start : start + batch_size]
                cuts = range(0, len(piece), DECODED)
                yield self._of_images([read_upright(name) for name in piece[i : i + DECODED]] for i in cuts)

    def _of_images(self, pieces: Iterable[list[Any]]) -> NDArray[np.float32]:
        return np.concatenate([self.backbone.features(images) for images in pieces])


def joined_texts(frame: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    """One text per row: its columns in lines of their own, empty cells left out."""
    polars = require("polars", extra="tables")
    cells = [polars.col(name).cast(polars.String) for name in columns]
    joined = frame.select(text=polars.concat_str(cells, separator="\n", ignore_nulls=True))
    texts: list[str] = joined["text"].fill_null("").to_list()
    return texts


def to_pillow(pixels: Tensor) -> list[Any]:
    """Images (N, channels, height, width) in uint8 as Pillow images, RGB."""
    pillow = require("PIL.Image", extra="cli")
    images = []
    for values in pixels.permute(0, 2, 3, 1).numpy():
        image = pillow.fromarray(np.ascontiguousarray(values[:, :, 0] if values.shape[2] == 1 else values))
        images.append(image.convert("RGB"))
    return images
