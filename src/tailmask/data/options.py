"""All options about the data, in one place."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from tailmask._util.messages import UserError
from tailmask.backbones.backbone import is_backbone

__all__ = ["PLACES", "DataOptions"]

# Options with paths of files. The record has the content of the files, not their paths.
PLACES = (
    "data_dir",
    "download",
    "images",
    "classes",
    "backbone",
    "feature_dir",
    "test_file",
    "validation_file",
)


@dataclass(frozen=True)
class DataOptions:
    """Options about the data, with their names on the command line.

    An option is ignored if it does not concern the data. None means the default of the data set.

    Args:
        labels: columns that are labels, by name or pattern, as in 'tag_*', separated by commas
        label_column: column that holds all labels of a row
        separator: character between the labels in --label-column
        empty_tags: meaning of an empty cell in --label-column: unknown labels, or no label
        features: columns to learn from, by name or pattern [default: all columns except labels]
        drop: columns to ignore, by name or pattern; they are neither labels nor features
        text: columns with text, by name or pattern, used as TF-IDF together with the other columns
        text_analyzer: terms of a text: words and pairs of words, or pieces of words
        text_terms: largest number of terms per column of text [default: 20000, for linear models 100000]
        text_buckets: hash words into this number of inputs instead, without a list of terms
        encoding: encoding of tables; standard-1 is the encoding of earlier published results
        no_header: the file has no line with names: its columns are called 0, 1, 2, …
        classes: file with one class name per line, for labels that are class numbers
        inputs: name of the inputs in an .npz file
        targets: name of the targets in an .npz file
        images: folder of the images in a manifest or COCO file [default: the file's folder]
        image_size: width and height in pixels that images are scaled to
        augment: augmentation of images in training [default: crop]
        backbone: pretrained model whose features become the inputs: hf:NAME_OR_FOLDER or timm:NAME
        encoder: your own function that turns a list of texts or images into features: module:function
        finetune: train the backbone itself, not only a network on its features
        pooling: way to turn a backbone's outputs into features [default: by the family of the model]
        flips: use the mean of the features of an image and of its mirror image
        feature_dir: folder where features are kept [default: tailmask-features]
        test_file: file to test on
        validation_file: file to validate on
        test: share of the rows to test on [default: 0.2 if there is no test file]
        validation: share of the rows to validate on [default: 0.1 for your own files and rcv1, else 0]
        group: column such as patient; rows with the same value stay in one part (in .npz, an array)
        time: column to split by: test on the latest rows, validate on the rows before (in .npz, an array)
        data_seed: seed of the splits, and of generated data sets
        rho: size of the largest class divided by the smallest, in cifar10-lt and cifar100-lt
        validation_from: source of the validation images of cifar10-lt and cifar100-lt: the training images,
            or images that the long tail does not use
        fresh_shifts: draw new shifts of the digits of multimnist in every epoch
        data_dir: folder of public data sets [default: $TAILMASK_DATA, else a cache]
        download: download public data sets that are not in the folder
    """

    GROUPS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "your own tables": (
            "labels",
            "label_column",
            "separator",
            "empty_tags",
            "features",
            "drop",
            "text",
            "text_analyzer",
            "text_terms",
            "text_buckets",
            "encoding",
            "no_header",
        ),
        "your own arrays and images": ("inputs", "targets", "classes", "images", "image_size", "augment"),
        "pretrained models": ("backbone", "finetune", "encoder", "pooling", "flips", "feature_dir"),
        "splits": ("test_file", "validation_file", "test", "validation", "group", "time", "data_seed"),
        "public data sets": ("rho", "validation_from", "fresh_shifts", "data_dir", "download"),
    }

    labels: str | None = None
    label_column: str | None = None
    separator: str = ","
    empty_tags: Literal["unknown", "none"] = "unknown"
    features: str | None = None
    drop: str | None = None
    text: str | None = None
    text_analyzer: Literal["word", "char"] = "word"
    text_terms: int | None = None
    text_buckets: int | None = None
    encoding: Literal["table-2", "standard-1"] = "table-2"
    no_header: bool = False
    classes: Path | None = None
    inputs: str = "X"
    targets: str = "Y"
    image_size: int | None = None
    augment: Literal["none", "crop", "crop+flip"] | None = None
    images: Path | None = None
    backbone: str | None = None
    finetune: bool = False
    encoder: str | None = None
    pooling: Literal["cls", "mean", "pooler"] | None = None
    flips: bool = False
    feature_dir: Path | None = None
    test_file: Path | None = None
    validation_file: Path | None = None
    test: float | None = None
    validation: float | None = None
    group: str | None = None
    time: str | None = None
    data_seed: int = 0
    rho: float = 100.0
    validation_from: Literal["training", "unused"] = "training"
    fresh_shifts: bool = False
    data_dir: Path | None = None
    download: bool = True

    def __post_init__(self) -> None:
        for name in ("test", "validation"):
            share = getattr(self, name)
            if share is not None and not 0 <= share < 1:
                raise UserError(f"--{name} must be a share of the rows such as 0.2, got {share:g}")
        least = {"text_terms": 1, "text_buckets": 1, "image_size": 1, "rho": 1, "data_seed": 0}
        for name, limit in least.items():
            value = getattr(self, name)
            if value is not None and not value >= limit:
                raise UserError(f"--{name.replace('_', '-')} must be {limit} or more, got {value:g}")
        if self.data_seed >= 2**32:  # NumPy's RandomState takes no larger seed
            raise UserError(f"--data-seed must be below {2**32}, got {self.data_seed}")
        if self.validation_from == "unused" and not self.validation:
            raise UserError("--validation-from unused needs a share, as in --validation 0.1")
        if not self.separator:
            raise UserError("--separator must not be empty")
        self._check_backbone()

    def _check_backbone(self) -> None:
        if self.backbone is not None and not is_backbone(self.backbone):
            raise UserError(
                f"--backbone must be hf:NAME_OR_FOLDER or timm:NAME, got {self.backbone!r}: name your own "
                "function with --encoder module:function"
            )
        if self.backbone is not None and self.encoder is not None:
            raise UserError("choose either --backbone (or --model hf:...) or --encoder, not both")
        if self.finetune and self.flips:
            raise UserError(
                "--flips is for features, and --finetune trains the model itself: leave out --flips; "
                "--augment crop+flip mirrors images in training"
            )

    @property
    def features_of(self) -> str | None:
        """The backbone or encoder whose features are the inputs; None if the data themselves are the inputs.

        >>> DataOptions(backbone="hf:bert-base-uncased").features_of
        'hf:bert-base-uncased'
        """
        return self.backbone if self.encoder is None else self.encoder

    def with_labels(self, labels: Sequence[str] | None) -> DataOptions:
        """The options with these columns as labels; None changes nothing."""
        if labels is None:
            return self
        if any("," in name for name in labels):
            raise UserError("the name of a label must not have a comma: rename the column")
        return dataclasses.replace(self, labels=",".join(labels))

    def choices(self) -> dict[str, Any]:
        """The options that differ from their defaults.

        >>> DataOptions(rho=50.0).choices()
        {'rho': 50.0}
        """
        default = DataOptions()
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value != getattr(default, name)}

    def to_json(self) -> dict[str, Any]:
        """The options as plain JSON."""
        return {name: str(v) if isinstance(v, Path) else v for name, v in self.choices().items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DataOptions:
        """The options that `to_json` wrote."""
        hints = typing.get_type_hints(cls)
        values: dict[str, Any] = {
            name: Path(v) if Path in typing.get_args(hints[name]) else v for name, v in value.items()
        }
        return cls(**values)
