"""Every choice that a user has about data, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["DataOptions"]


@dataclass(frozen=True)
class DataOptions:
    """Choices about the data, as the command line spells them.

    A field that does not concern the data at hand is left alone; `None` means the data set's own habit.

    Args:
        labels: label columns of a table, by name or pattern, as in 'tag_*'; several with commas
        label_column: the one column that holds all labels of a row, separated by --separator
        separator: what separates the labels in --label-column
        features: columns to learn from, by name or pattern; all that are not labels where left out
        text: text column, learned from as a hashed bag of words
        text_buckets: width of the hashed bag of words
        no_header: the table has no first line of names: its columns are called 0, 1, 2 and so on
        classes: file with one class name a line, for labels that are class numbers
        inputs: name of the inputs in an .npz file
        targets: name of the targets in an .npz file
        image_size: side in pixels that images are scaled to
        augment: how training varies your images: none, crop, or crop+flip; crop where left out
        images: folder of the images in a manifest or COCO file; the file's own where left out
        test_file: file with the test split, in the same format
        validation_file: file with the validation split, in the same format
        test: share of the rows to test on where there is no test file; 0.2 where left out
        validation: share of the rows to validate on; 0.1 for your own files, none for the paper's sets
        data_seed: seed of the splits and of the sets that are put together here
        rho: imbalance of cifar10-lt and cifar100-lt, largest class over smallest
        fresh_shifts: multimnist: move the digits anew in every epoch
        data_dir: folder of the public data sets; $TAILMASK_DATA or a cache where left out
        download: fetch public data sets that are not in the folder
    """

    labels: str | None = None
    label_column: str | None = None
    separator: str = ","
    features: str | None = None
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
