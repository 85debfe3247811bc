"""Data sets of texts and images as data sets of a pretrained model's features."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.backbones.backbone import BackboneChoice, Kind, open_backbone
from tailmask.backbones.feature_cache import Samples, cached_features
from tailmask.data.dataset import Dataset, Inputs
from tailmask.data.encoders.array import ArrayRows
from tailmask.data.encoders.backbone_encoder import BackboneEncoder
from tailmask.data.encoders.image import ImageEncoder
from tailmask.data.images.in_memory import Images
from tailmask.data.images.on_disk import ImageFiles, read_upright
from tailmask.data.options import DataOptions
from tailmask.data.pretrained.backbone_format import BackboneFormat, TextEncoder, Texts, to_pillow
from tailmask.data.pretrained.changed_inputs import with_inputs
from tailmask.data.readers.raw_parts import MOST_LABELS, dense_targets
from tailmask.data.rows import RawData, Rows

__all__ = ["backbone_choice", "samples_of", "with_features"]


@dataclass(frozen=True)
class TextSamples:
    """Texts, identified by their characters."""

    values: Sequence[str]
    kind: Kind = "texts"

    def __len__(self) -> int:
        return len(self.values)

    def keys(self) -> list[bytes]:
        """SHA-256 of each text."""
        return [hashlib.sha256(text.encode(errors="surrogatepass")).digest() for text in self.values]

    def take(self, index: Sequence[int]) -> list[str]:
        """Some of the texts."""
        return [self.values[number] for number in index]


@dataclass(frozen=True)
class FileSamples:
    """Image files, identified by their bytes."""

    folder: Path
    names: NDArray[np.bytes_]
    kind: Kind = "images"

    def __len__(self) -> int:
        return len(self.names)

    def keys(self) -> list[bytes]:
        """SHA-256 of each file."""
        keys = []
        for number in range(len(self)):
            with self._path(number).open("rb") as file:
                keys.append(hashlib.file_digest(file, "sha256").digest())
        return keys

    def take(self, index: Sequence[int]) -> list[Any]:
        """Some of the images, decoded."""
        return [read_upright(self._path(number)) for number in index]

    def _path(self, number: int) -> Path:
        return self.folder / os.fsdecode(self.names[number])


@dataclass(frozen=True)
class PixelSamples:
    """Images in memory, identified by their pixels."""

    pixels: Tensor  # (N, channels, height, width) uint8
    kind: Kind = "images"

    def __len__(self) -> int:
        return len(self.pixels)

    def keys(self) -> list[bytes]:
        """SHA-256 of each image's shape and pixels."""
        shape = repr(tuple(self.pixels.shape[1:])).encode()
        return [
            hashlib.sha256(shape + image.contiguous().numpy().tobytes()).digest() for image in self.pixels
        ]

    def take(self, index: Sequence[int]) -> list[Any]:
        """Some of the images."""
        return to_pillow(self.pixels[torch.tensor(index)])


def samples_of(inputs: Inputs, name: str) -> Samples:
    """The samples for a backbone, from the inputs of a data set; they must be texts or images."""
    match inputs:
        case Texts():
            return TextSamples(inputs.values)
        case ImageFiles():
            return FileSamples(inputs.folder, inputs.names)
        case Images():
            return PixelSamples(inputs.pixels)
    raise UserError(
        f"a pretrained model takes images or texts, but {name} has neither: leave out the model, or name the "
        "column of texts with --text"
    )


def backbone_choice(options: DataOptions, kind: Kind) -> BackboneChoice:
    """The backbone that the options name."""
    assert options.features_of is not None
    return BackboneChoice(options.features_of, kind, options.pooling, options.flips)


def with_features(dataset: Dataset, options: DataOptions) -> Dataset:
    """The data set with features of the chosen backbone as inputs, standardised by the training rows.

    Features are computed once and kept; see `tailmask.backbones.feature_cache`.
    """
    samples = {name: samples_of(split.inputs, dataset.name) for name, split in dataset.splits.items()}
    choice = backbone_choice(options, samples["train"].kind)
    backbone = open_backbone(choice)
    features = {name: cached_features(backbone, each, options.feature_dir) for name, each in samples.items()}
    scale = ArrayRows(features["train"]).fit(np.arange(len(features["train"])), options)
    assert isinstance(dataset.encoder, TextEncoder | ImageEncoder)
    row_format = BackboneFormat(choice, backbone.digest, dataset.encoder, scale.num_features)
    encoder = BackboneEncoder(row_format, scale)
    note = f"inputs are {scale.num_features} features of {choice.short_name}, which is not trained"
    if choice.kind == "texts":
        note += "; linear also learns from the words"
    return with_inputs(
        dataset,
        {name: encoder.scaled(values) for name, values in features.items()},
        encoder,
        backbone={"name": choice.short_name, "digest": backbone.digest},
        note=note,
        raw=_raw(dataset, features, row_format),
    )


def _raw(
    dataset: Dataset, features: Mapping[str, NDArray[np.float32]], row_format: BackboneFormat
) -> RawData | None:
    """The features as raw rows for learners, with their texts, and the groups and times of a user's file."""
    if sum(len(split) for split in dataset.splits.values()) * len(dataset.classes) > MOST_LABELS:
        return None

    def rows(known: Rows | None, *names: str) -> Rows:
        splits, joined = [dataset.splits[n] for n in names], np.concatenate([features[n] for n in names])
        if known is None:
            known = Rows(joined, np.concatenate([dense_targets(split.targets) for split in splits]))
        texts = [text for split in splits if isinstance(split.inputs, Texts) for text in split.inputs.values]
        own = np.array(texts, dtype=object) if texts else None
        return dataclasses.replace(known, features=joined, texts=own, format=row_format)

    names, raw = [name for name in ("train", "validation") if name in features], dataset.raw
    development, test = (raw.development, raw.test) if raw is not None else (None, None)
    return RawData(rows(development, *names), rows(test, "test"), num_train=len(features["train"]))
