"""Every choice that a user has about data, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from tailmask.errors import UserError

__all__ = ["PLACES", "DataOptions"]

# Choices that say where files are: what is read there is on record, not the place.
PLACES = ("data_dir", "download", "images", "classes", "test_file", "validation_file")


@dataclass(frozen=True)
class DataOptions:
    """Choices about the data, as the command line spells them.

    A choice that does not concern the data at hand is left alone; None means the data set's own habit.

    Args:
        labels: columns that are labels, by name or pattern, as in 'tag_*'; several with commas
        label_column: the one column that holds all labels of a row
        separator: what separates the labels in --label-column
        empty_tags: whether the labels of a row are unknown, or it has none, where --label-column is empty
        features: columns to learn from, by name or pattern; all that are not labels where left out
        drop: columns to pass over, by name or pattern, neither labels nor features
        text: column with text, taken as a hashed bag of words beside the other columns
        text_buckets: width of the hashed bag of words
        no_header: the file has no line with names: its columns are called 0, 1, 2, …
        classes: file with one class name a line, for labels that are class numbers
        inputs: name of the inputs in an .npz file
        targets: name of the targets in an .npz file
        images: folder of the images in a manifest or COCO file; the file's own where left out
        image_size: side in pixels that images are scaled to
        augment: how training varies images: none, crop or crop+flip; crop where left out
        test_file: file to test on
        validation_file: file to validate on
        test: share of the rows to test on; 0.2 where there is no test file
        validation: share of the rows to validate on; 0.1 of your own files and rcv1, none of the paper's sets
        data_seed: seed of the splits, and of the sets that are put together here
        rho: imbalance of cifar10-lt and cifar100-lt, the largest class over the smallest
        fresh_shifts: shift the digits of multimnist anew in every epoch
        data_dir: folder of the public sets; $TAILMASK_DATA, else a cache, where left out
        download: download public sets that are not in the folder
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
            "text_buckets",
            "no_header",
        ),
        "your own arrays and images": ("inputs", "targets", "classes", "images", "image_size", "augment"),
        "splits": ("test_file", "validation_file", "test", "validation", "data_seed"),
        "public data sets": ("rho", "fresh_shifts", "data_dir", "download"),
    }

    labels: str | None = None
    label_column: str | None = None
    separator: str = ","
    empty_tags: Literal["unknown", "none"] = "unknown"
    features: str | None = None
    drop: str | None = None
    text: str | None = None
    text_buckets: int = 2**14
    no_header: bool = False
    classes: Path | None = None
    inputs: str = "X"
    targets: str = "Y"
    image_size: int | None = None
    augment: Literal["none", "crop", "crop+flip"] | None = None
    images: Path | None = None
    test_file: Path | None = None
    validation_file: Path | None = None
    test: float | None = None
    validation: float | None = None
    data_seed: int = 0
    rho: float = 100.0
    fresh_shifts: bool = False
    data_dir: Path | None = None
    download: bool = True

    def __post_init__(self) -> None:
        for name in ("test", "validation"):
            share = getattr(self, name)
            if share is not None and not 0 <= share < 1:
                raise UserError(f"--{name} must be a share of the rows such as 0.2, got {share:g}")
        least = {"text_buckets": 1, "image_size": 1, "rho": 1, "data_seed": 0}
        for name, limit in least.items():
            value = getattr(self, name)
            if value is not None and not value >= limit:
                raise UserError(f"--{name.replace('_', '-')} must be {limit} or more, got {value:g}")
        if self.data_seed >= 2**32:  # what splits are drawn with takes no more
            raise UserError(f"--data-seed must be below {2**32}, got {self.data_seed}")
        if not self.separator:
            raise UserError("--separator must not be empty")
