"""Readers of new texts and images for models that were trained on a pretrained model's features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
from tailmask.data.readers.table.frames import frame_pieces
from tailmask.data.rows import Rows

if TYPE_CHECKING:
    import polars as pl

    from tailmask.data.encoders.text import Analyzer

__all__ = ["BackboneFormat", "TextEncoder", "Texts", "joined_texts", "to_pillow"]

# The most images in memory at full size.
DECODED = 32


@dataclass(frozen=True)
class Texts:
    """One text per sample, before a pretrained model turns the texts into numbers."""

    values: tuple[str, ...]

    shape: tuple[int, ...] = ()
    on_disk = False

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Raise a TypeError: texts have no numbers yet."""
        raise TypeError("texts are not inputs for a network: a backbone must turn them into features first")


@dataclass(frozen=True)
class TextEncoder(Encoder):
    """The text columns of a table, and the options for the words that `linear` learns from."""

    columns: tuple[str, ...]
    header: bool = True
    analyzer: Analyzer = "word"
    terms: int | None = None  # the largest number of terms; None leaves it to the learner

    kind = "texts"
    shape = ()

    def to_json(self) -> dict[str, Any]:
        """The names of the columns, and the options about words."""
        return {"kind": self.kind, **asdict(self), "columns": list(self.columns)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TextEncoder:
        """The encoder that `to_json` described."""
        columns = tuple(str(name) for name in value["columns"])
        terms = None if value["terms"] is None else int(value["terms"])
        return cls(columns, bool(value["header"]), value["analyzer"], terms)

    def batches(self, path: Path, batch_size: int) -> Iterator[Tensor]:
        """Raise a TypeError: only a `BackboneEncoder` turns texts into numbers."""
        raise TypeError("texts need a backbone to become inputs")

    def texts(self, path: Path, batch_size: int) -> Iterator[list[str]]:
        """The texts of a table, `batch_size` at a time."""
        types = dict.fromkeys(self.columns, require("polars", extra="tables").String)
        for frame in frame_pieces(path, batch_size, columns=self.columns, types=types, header=self.header):
            yield joined_texts(frame, self.columns)


@dataclass(frozen=True)
class BackboneFormat:
    """The format of rows that are features of a frozen model: the model, and the format of texts or images.

    `digest` is the backbone's; new samples need a backbone with the same digest. The user's own code is run
    only if the user names it again; see `allowed`.
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
        """True if samples are images."""
        return self.choice.kind == "images"

    @property
    def header(self) -> bool:
        """True if tables have a header line."""
        return not isinstance(self.source, TextEncoder) or self.source.header

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, which `format_from_json` reads."""
        return {
            "kind": "backbone",
            "choice": self.choice.to_json(),
            "digest": self.digest,
            "source": self.source.to_json(),
            "num_features": self.num_features,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BackboneFormat:
        """The format that `to_json` wrote; the user's own code is not allowed to run yet."""
        choice = BackboneChoice.from_json(value["choice"])
        build = ImageEncoder.from_json if choice.kind == "images" else TextEncoder.from_json
        source = build(value["source"])
        return cls(choice, str(value["digest"]), source, value["num_features"], not choice.is_code)

    def allowed(self, name: str | None) -> BackboneFormat:
        """The format with its model in the folder `name`, or permission to run the user's code `name`."""
        if name is None:
            return self
        if is_backbone(name) == self.choice.is_code:
            raise UserError(
                f"this model was trained on features of {self.choice.name}, got {name}: leave it out"
            )
        if self.choice.is_code:
            return replace(self, is_allowed=self.is_allowed or name == self.choice.name)
        return replace(self, choice=self.choice.named(name))

    @cached_property
    def backbone(self) -> Backbone:
        """The pretrained model; raises a `UserError` if it is not the one of training."""
        if not self.is_allowed:
            raise UserError(
                "this model was trained on features of a function of your own: allow its code to run with "
                f"--encoder {self.choice.name}"
            )
        backbone = open_backbone(self.choice)
        if backbone.digest != self.digest:
            raise UserError(
                f"{self.choice.name} has changed since training: it has other weights, preprocessing or code"
                + ("" if self.choice.is_code else "; name the same model's folder with --model hf:FOLDER")
            )
        return backbone

    def pieces(self, path: Path, batch_size: int, *, images: Path | None = None) -> Iterator[Rows]:
        """The unlabelled rows of a file, `batch_size` at a time: a table of texts, or images.

        Images come from an .npz file, one image, a folder, or a list of files. Paths in a list are relative
        to the folder `images`, by default the list's own folder.
        """
        if isinstance(self.source, TextEncoder):
            yield from map(self.rows, self.source.texts(path, batch_size))
        else:
            for features in self._of_files(self.source, path, batch_size, images):
                yield Rows(features, format=self)

    def rows(self, samples: Sequence[Any] | NDArray[Any]) -> Rows:
        """The unlabelled rows of a list of texts or Pillow images, or of an array (N, D) of features."""
        if isinstance(samples, np.ndarray):
            features, texts = samples, None
        else:
            features = self.backbone.features(samples)
            texts = None if self.reads_images else np.array(samples, dtype=object)
        if features.ndim != 2 or features.shape[1] != self.num_features:
            raise UserError(
                f"features must have the shape (N, {self.num_features}), as in training, got "
                f"{tuple(features.shape)}"
            )
        return Rows(features, texts=texts, format=self)

    def _of_files(
        self, source: ImageEncoder, path: Path, batch_size: int, images: Path | None
    ) -> Iterator[NDArray[np.float32]]:
        if path.suffix.lower() == ".npz":
            for pixels in source.pixels(path, batch_size):
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
    """One text per row: one line per column, without empty cells."""
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
