"""Lists of image files with their labels: manifests, plain text lists, and folders for prediction."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import UserError
from tailmask.data.digests import digest
from tailmask.data.encoders.image import ImageEncoder
from tailmask.data.images.bit_depth import range_note
from tailmask.data.images.on_disk import SUFFIXES, ImageFiles, check_paths, opened, packed
from tailmask.data.options import DataOptions
from tailmask.data.readers.table.frames import is_table, read_frame
from tailmask.data.readers.table.label_columns import Labels, labels_from_tags, read_classes

__all__ = [
    "MEAN",
    "STD",
    "FileRows",
    "file_rows",
    "is_list",
    "listed_images",
    "path_column",
    "read_list",
    "read_list_lines",
]

# Mean and deviation of ImageNet's images: the usual values for photographs.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

LARGEST_SIDE = 224

# The digest of a set reads this many images in full.
READ_WHOLE = 32


@dataclass(frozen=True)
class FileRows:
    """Image files below a folder, and their augmentation in training."""

    folder: Path
    names: tuple[str, ...]
    min_area: float | None
    flip: bool
    scaled: bool = True  # to one size; False for a pretrained model, which scales images itself

    def __len__(self) -> int:
        return len(self.names)

    def keys(self, like: object = None) -> NDArray[np.bytes_]:
        """The path of each image. Only the same file counts as the same image: no file is read."""
        folder = self.folder.absolute()
        return packed([os.path.normpath(folder / name) for name in self.names])

    def fit(self, index: NDArray[np.int64], options: DataOptions) -> ImageEncoder:
        """The encoder, with the side from the options, else that of the first image, at most 224."""
        side = options.image_size or _side(self.folder / self.names[index[0]])
        return ImageEncoder(channels=3, height=side, width=side, mean=MEAN, std=STD)

    def encode(
        self, encoder: ImageEncoder, index: NDArray[np.int64], *, training: bool = False
    ) -> ImageFiles:
        """The images in `index`; in training they are cropped and flipped at random."""
        return ImageFiles(
            self.folder,
            packed([self.names[number] for number in index]),
            encoder.shape,
            encoder.mean,
            encoder.std,
            min_area=self.min_area if training else None,
            flip=self.flip and training,
        )

    def digest(self) -> str:
        """SHA-256 of the names and sizes of all files, and of the content of up to 32 across the list.

        It may miss a few images that were replaced by others of the same size: reading every byte of a large
        set would take minutes.
        """
        sizes = np.array([(self.folder / name).stat().st_size for name in self.names], dtype=np.int64)
        step = -(-len(self) // READ_WHOLE)
        contents = [np.fromfile(self.folder / name, dtype=np.uint8) for name in self.names[::step]]
        return digest(packed(self.names), sizes, *contents)

    def notes(self, encoder: ImageEncoder, index: NDArray[np.int64], labels: Labels) -> list[str]:
        """Notes on the size that images are scaled to, and on a first image that is almost black."""
        notes = [f"images are scaled to {encoder.height}×{encoder.width} pixels"] if self.scaled else []
        # If the first image cannot be decoded, the first batch raises the error.
        with contextlib.suppress(UserError), opened(self.folder / self.names[0]) as image:
            notes += filter(None, [range_note(image)])
        return notes


def file_rows(path: Path, names: Sequence[str], options: DataOptions) -> FileRows:
    """The images that a manifest lists, relative to its own folder or to `--images`."""
    folder = options.images or path.parent
    check_paths(folder, names, path)
    augment = options.augment or "crop"
    min_area, scaled = 0.5 if "crop" in augment else None, options.features_of is None
    return FileRows(folder, tuple(names), min_area, "flip" in augment, scaled)


def read_list(path: Path, options: DataOptions) -> tuple[FileRows, Labels]:
    """Images and labels from lines like `train/1.jpg 3 17` or `1.jpg, 3 17`: a path and class numbers."""
    names, tags = read_list_lines(path)
    for name, line in zip(names, tags, strict=True):
        if len(set(line)) < len(line):
            double = next(tag for tag in line if line.count(tag) > 1)
            raise UserError(
                f"{path} names the class {double} twice for {name}: after an image, write the numbers or "
                "names of its classes, as in 1.jpg 3 17, not a 0 or 1 per class"
            )
    classes = None if options.classes is None else read_classes(options.classes)
    return file_rows(path, names, options), labels_from_tags(tags, path, classes=classes)


def read_list_lines(path: Path) -> tuple[list[str], list[list[str]]]:
    """The paths and the labels in a plain list; lines are split at spaces and commas."""
    names, tags = [], []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text file ({error.reason}): save it as UTF-8") from error
    for line in lines:
        words = re.split(r"[,\s]+", line.strip())
        if words[0]:
            names.append(words[0])
            tags.append([word for word in words[1:] if word])
    if not names:
        raise UserError(f"{path} lists no images: write a path and its classes on each line")
    return names, tags


def is_list(path: Path) -> bool:
    """True if a file has a format that can list images.

    >>> is_list(Path("images.csv")), is_list(Path("image.png"))
    (True, False)
    """
    return path.suffix.lower() == ".txt" or is_table(path)


def path_column(columns: Sequence[str]) -> str | None:
    """The column that names image files: `path`, in upper or lower case.

    >>> path_column(["Path", "cat", "dog"])
    'Path'
    """
    found = [name for name in columns if name.lower() == "path"]
    return "path" if "path" in found else next(iter(found), None)


def listed_images(path: Path, folder: Path | None = None) -> list[Path]:
    """The image files to predict for: one file, all in a folder, or all that a manifest or list names.

    Listed paths are relative to `folder`, by default the list's own folder.
    """
    if path.is_dir():
        files = sorted(inner for inner in path.iterdir() if inner.suffix.lower() in SUFFIXES)
        if not files:
            raise UserError(
                f"there are no images in the folder {path}: name a folder with files such as 1.jpg or 1.png"
            )
        return files
    if path.suffix.lower() in SUFFIXES:
        return [path]
    if path.suffix.lower() == ".txt":
        names, _ = read_list_lines(path)
    elif is_table(path):
        frame = read_frame(path)
        column = path_column(frame.columns)
        if column is None:
            raise UserError(f"{path} has no column 'path': name the images in such a column")
        names = frame[column].cast(str).fill_null("").to_list()
    else:
        raise UserError(f"{path} must be an image, a folder or list of images, or an .npz file with images")
    folder = folder or path.parent
    check_paths(folder, names, path)
    return [folder / name for name in names]


def _side(path: Path) -> int:
    with opened(path) as image:
        return int(min(*image.size, LARGEST_SIDE))
